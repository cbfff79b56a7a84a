"""Ctrl-C within the long steps of an export ends between two rows; two artefacts are measured at a time."""

import threading

import numpy as np
import pytest

from edgeveil.trainer.export import export as make
from edgeveil.trainer.export import runners
from edgeveil.trainer.export.artefact import Artefact
from edgeveil.trainer.export.converters.converter import calibration_rows
from edgeveil.trainer.export.export import export
from edgeveil.trainer.interrupts import whole_steps
from edgeveil.trainer.progress import Steps
from tests.trainer.test_interrupts import press


class Doubling:
    """A runner of batches of 2 that counts its calls."""

    batch = 2

    def __init__(self, at=None):
        self.calls, self.at = [], at

    def run(self, inputs):
        self.calls.append(len(inputs["x"]))
        if len(self.calls) == self.at:
            press()
        return {"y": 2 * inputs["x"]}


def test_a_calibration_ends_between_two_rows():
    rows, seen = {"x": np.zeros((5, 1), np.float32)}, []

    def work():
        with whole_steps():
            for row in calibration_rows(rows)():
                seen.append(row)
                if len(seen) == 2:
                    press()

    with pytest.raises(KeyboardInterrupt):
        work()
    assert len(seen) == 2


def test_a_run_ends_between_two_blocks_of_frames_with_the_numbers_of_one_call():
    x = np.arange(100, dtype=np.float32)[:, None]
    recorder = runners.Recorder(whole := Doubling())
    assert np.array_equal(recorder.run({"x": x})["y"], 2 * x)
    assert whole.calls == [32, 32, 32, 4]
    assert np.array_equal(recorder.inputs["x"], x)
    interrupted = Doubling(at=2)

    def work():
        with whole_steps():
            runners.Recorder(interrupted).run({"x": x})

    with pytest.raises(KeyboardInterrupt):
        work()
    assert interrupted.calls == [32, 32]


def test_keras_runs_all_rows_in_one_call():
    class Keras:
        def run(self, inputs):
            return {"y": np.full_like(inputs["x"], len(inputs["x"]))}

    assert (runners.Recorder(Keras()).run({"x": np.zeros((100, 1))})["y"] == 100).all()


def side_by_side(monkeypatch, free, cores=2):
    """How many of four artefacts were measured at once."""
    monkeypatch.setattr(make, "free_memory", lambda: free)
    monkeypatch.setattr(make.os, "cpu_count", lambda: cores)
    running, most, lock = 0, 0, threading.Lock()
    met = threading.Barrier(2)

    def answers(one):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        if free and cores > 1:
            met.wait(10)
        with lock:
            running -= 1
        return {one.name: np.zeros(1)}

    made = [Artefact(name) for name in ("tflite-int8", "tflite-float32", "onnx-int8", "onnx-float32")]
    got = list(make._side_by_side(answers, made, 100, Steps(4)))
    assert [next(iter(one)) for one in got] == [one.name for one in made]
    return most


def test_two_are_measured_at_a_time_where_there_are_cores_and_memory(monkeypatch):
    assert side_by_side(monkeypatch, 1e9) == 2
    assert side_by_side(monkeypatch, 0) == 1
    assert side_by_side(monkeypatch, 1e9, cores=1) == 1


def test_progress_names_the_step(run, tmp_path, monkeypatch):
    named, begin = [], Steps.begin
    monkeypatch.setattr(Steps, "begin", lambda self, name: named.append(name) or begin(self, name))
    export(run.folder, ["workstation"], tmp_path / "out")
    assert named == [
        "generator: onnx-float32 by tf2onnx",
        "generator: tflite-int8 tflite-float32 by tf.lite",
        "tflite-int8 compared with Keras",
        "tflite-float32 compared with Keras",
        "onnx-float32 compared with Keras",
    ]
