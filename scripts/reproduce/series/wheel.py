"""A made-up sensor on a wheel that turns once a second: six channels at 200 Hz, and a sealed bundle that reads it.

Eight windows end in a turn, each an eighth further; y is that eighth. So a receiver of y alone knows which window a
record is of, and when its last sample was written.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from edgeveil.trainer.export.export import export
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.sealing.seal import keygen, seal
from edgeveil.trainer.train import train

RATE_HZ, CHANNELS, LENGTH, HOP = 200, 6, 100, 25
EIGHTHS = RATE_HZ // HOP
ROWS, NOISE = 1600, 0.05
RECIPE = f"""
name = "wheel"
[data]
source = "npz:wheel.npz"
kind = "series"
target = "eighth"
sensitive = "swing"
[data.series]
rate_hz = {RATE_HZ}
hop = {HOP}
channels = ["a", "b", "c", "d", "e", "f"]
units = ["g", "g", "g", "g", "g", "g"]
[prior]
kind = "counted"
[classifiers]
architecture = "series"
learning_rate = 3e-3
[perturber]
kind = "label-only"
[budget]
classifier_epochs = 12
epochs = 1
[limits]
target_accuracy = 0.99
"""


def samples(first: int, count: int, *, swing: float = 1.0) -> np.ndarray:
    """Values (count, channels) of a wheel, from its sample number ``first`` on; without noise."""
    angle = 2 * np.pi * (first + np.arange(count)) / RATE_HZ
    return swing * np.cos(angle[:, None] + np.arange(CHANNELS) * np.pi / 3)


def last_sample(window: int) -> int:
    """The number of the last sample of a window."""
    return LENGTH - 1 + HOP * window


def bundle(folder: Path) -> Path:
    """A sealed development bundle of label-only, int8 and float32, and the folder ``trust`` beside it."""
    rng = np.random.default_rng(0)
    y, z = np.arange(ROWS) % EIGHTHS, rng.integers(0, 2, ROWS)
    x = np.stack([samples(HOP * int(one), LENGTH, swing=(0.8, 1.0)[two]) for one, two in zip(y, z, strict=True)])
    x = (x + rng.normal(0, NOISE, x.shape)).astype(np.float32)
    np.savez(folder / "wheel.npz", x=x, y=y, z=z)
    run = train(Recipe.parse(RECIPE, folder=folder), folder / "run")
    export(run.folder, ["workstation"], folder / "export")
    keygen(folder / "trust", development=True)
    path = seal(folder / "export", folder / "trust" / "signing.key", folder / "wheel.veil", allow_unaudited=True)
    (folder / "trust" / "signing.key").unlink()
    return path


class Wheel:
    """Writes a line a sample to each of the open ``ports``, on time, from ``start`` until ``stop``.

    ``written_s`` is when the last sample of each window was written, by ``time.monotonic``; ``late_s`` by how much the
    slowest line was late.
    """

    def __init__(self, ports: Sequence[int], *, seed: int = 0) -> None:
        self._ports, self._rng, self._stopping = ports, np.random.default_rng(seed), threading.Event()
        self.written_s: list[float] = []
        self.count, self.late_s = 0, 0.0
        self._thread = threading.Thread(target=self._write, daemon=True)

    def start(self) -> None:
        """Begin to turn. A line alone comes first: what opens a port does not trust its first piece."""
        for port in self._ports:
            os.write(port, b"\n")
        self._thread.start()

    def stop(self) -> None:
        """Stand still."""
        self._stopping.set()
        self._thread.join()

    def _write(self) -> None:
        began = time.monotonic()
        while not self._stopping.is_set():
            due = began + self.count / RATE_HZ
            time.sleep(max(0.0, due - time.monotonic()))
            values = samples(self.count, 1)[0] + self._rng.normal(0, NOISE, CHANNELS)
            line = f"{round(self.count * 1e6 / RATE_HZ)},{','.join(f'{value:.4f}' for value in values)}\n".encode()
            if self.count == last_sample(len(self.written_s)):
                self.written_s.append(time.monotonic())
            for port in self._ports:
                os.write(port, line)
            self.late_s = max(self.late_s, time.monotonic() - due)
            self.count += 1
