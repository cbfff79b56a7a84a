"""Recordings as ``fakenect-record`` makes them of a Kinect v1, of scenes that are known: for tests."""

from pathlib import Path

import numpy as np

SHAPE = (480, 640)


def raw_of(millimetres: np.ndarray) -> np.ndarray:
    """The 11-bit values that stand for depths, little-endian: OpenKinect's calibration turned around; 2047 is none."""
    with np.errstate(divide="ignore"):
        raw = np.rint((3.3309495161 - 1000.0 / millimetres) / 0.0030711016)
    return np.where((millimetres < 450) | (millimetres > 8000), 2047, np.clip(raw, 0, 2046)).astype("<u2")


def write(folder: Path, depths: list[np.ndarray], *, fps: float = 30.0) -> None:
    """``depths`` (480, 640) in mm, one a picture; beside each a dark picture in colour and the accelerometer."""
    folder.mkdir()
    names = []
    for number, depth in enumerate(depths):
        seconds, stamp = 1_700_000_000 + number / fps, number * 2_000_000
        parts = {
            f"d-{seconds:.6f}-{stamp}.pgm": b"P5 640 480 65535\n" + raw_of(depth.astype(float)).tobytes(),
            f"r-{seconds + 0.001:.6f}-{stamp}.ppm": b"P6 640 480 255\n" + bytes(640 * 480 * 3),
            f"a-{seconds + 0.002:.6f}-{stamp}.dump": bytes.fromhex("0000330300000000") + bytes(4),
        }
        for name, data in parts.items():
            (folder / name).write_bytes(data)
            names.append(name)
    (folder / "INDEX.txt").write_text("\n".join(names) + "\n")
