"""A series through open_source and a whole bundle: timed lines in, windows perturbed, what cannot be taken counted."""

import io
import sys

import numpy as np
import pytest

from edgeveil.edge_runtime.cli import main
from edgeveil.edge_runtime.errors import BadInput, FrameDropped
from edgeveil.edge_runtime.manifest.manifest import parse_capture
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.sources import open_source
from tests.edge_runtime.sources.series_example import SPEC, STEPS, capture, example, lines, recording
from tests.support import bundles

CAPTURE = parse_capture(capture())


def drained(source):
    """Windows and the reasons of drops."""
    found, dropped = [], []
    with source:
        while True:
            try:
                frame = source.next()
            except FrameDropped as drop:
                dropped.append(drop.reason)
                continue
            if frame is None:
                return found, dropped
            found.append((frame.index, frame._data))


def test_lines_with_their_time_become_windows(tmp_path):
    time, values = recording(30)
    path = tmp_path / "in.csv"
    path.write_text("time_s,accel_x,accel_y\n" + lines(time, values))
    found, dropped = drained(open_source(f"csv:{path}", SPEC, CAPTURE))
    assert dropped == []
    assert [index for index, _ in found] == list(range(6))
    np.testing.assert_allclose(found[2][1], values[8:16], atol=1e-5)


def test_a_broken_line_is_counted_and_is_a_sample_that_lacks(tmp_path):
    rows = lines(*recording(60)).splitlines()
    rows[30:37] = ["0.6,1", "0.62,nan,1", "secret", *rows[33:37]]
    path = tmp_path / "in.csv"
    path.write_text("\n".join(rows))
    found, dropped = drained(open_source(f"csv:{path}", SPEC, CAPTURE))
    assert dropped == ["unreadable"] * 3
    assert len(found) == 14  # three samples are 80 ms, which the bundle bridges
    _, dropped = drained(open_source(f"csv:{path}", SPEC, parse_capture(capture(longest_gap_s=0.05))))
    assert dropped == ["unreadable"] * 3 + ["gap"]


def test_standard_input(monkeypatch):
    time, values = recording(20)
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(lines(time, values).encode())))
    monkeypatch.setattr(sys, "stdin", stdin)
    found, dropped = drained(open_source("csv:-", SPEC, CAPTURE))
    assert len(found) == 4
    assert dropped == []


def test_whole_windows_of_a_file(tmp_path):
    x = np.random.default_rng(0).random((3, STEPS, 2)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    found, _ = drained(open_source(f"npz:{tmp_path / 'x.npz'}", SPEC, CAPTURE))
    assert np.array_equal(np.stack([window for _, window in found]), x)


@pytest.mark.parametrize(
    ("source", "problem"),
    [("images:DIR", "gives no samples of a series"), ("camera:0", "gives no samples of a series")],
)
def test_other_sources_are_refused(source, problem):
    with pytest.raises(BadInput, match=problem):
        open_source(source, SPEC, CAPTURE)


@pytest.mark.parametrize("source", ["serial:/dev/ttyACM0,115200,lines", "iio:mpu6050,50"])
def test_a_bundle_of_vectors_takes_no_samples_of_a_series(source):
    with pytest.raises(BadInput, match="gives samples of a series"):
        open_source(source, SPEC._replace(kind="vector", shape=(2,)), None)


def test_from_lines_to_what_leaves_by_the_command(tmp_path, capsys):
    made = bundles.make_bundle(tmp_path, example=example())
    rows = lines(*recording(200)).splitlines()
    del rows[100:110]
    source, sink = tmp_path / "in.csv", tmp_path / "out.npz"
    source.write_text("\n".join(rows))
    flags = [str(made.path), "--trust", str(made.trust), "--json"]
    assert main.main(["run", *flags, "--source", f"csv:{source}", "--sink", f"npz:{sink}"]) == 0
    said = capsys.readouterr().out
    assert '"dropped": {"gap": 1}' in " ".join(said.split())
    with np.load(sink) as file:
        assert file["x"].shape == (24 + 21, STEPS, 2)
        assert len(np.unique(file["label"])) > 1


def test_the_perturber_takes_windows_and_nothing_else(tmp_path):
    made = bundles.make_bundle(tmp_path, example=example())
    with Perturber.open(made.path, trust=made.trust) as perturber:
        spec = perturber.manifest.input
        assert (spec.kind, spec.shape, spec.series.rate_hz) == ("series", (STEPS, 2), 50.0)
