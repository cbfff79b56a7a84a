"""edgeveil.edge_runtime.frames: the privacy boundary is a type."""

import ast
import copy
import io
import json
import logging
import pickle
from pathlib import Path

import numpy as np
import pytest

from edgeveil import edge_runtime
from edgeveil.edge_runtime.api import PerturbedFrame, PrivacyStop, RawFrame
from edgeveil.edge_runtime.frames import _PIPELINE
from edgeveil.edge_runtime.sinks.base import Sink

SECRET = 171  # in hexadecimal ab


def raw():
    return RawFrame(np.full((3, 3), SECRET, np.uint8), index=7, captured_ns=1)


def perturbed(value=5):
    return PerturbedFrame(7, {"frame": np.full((2, 2), value, np.uint8), "label": np.int64(3)}, _PIPELINE)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_raw_frame_refuses_pickle(protocol):
    with pytest.raises(PrivacyStop):
        pickle.dumps(raw(), protocol)


@pytest.mark.parametrize(
    "use",
    [
        copy.copy,
        copy.deepcopy,
        np.asarray,
        np.array,
        bytes,
        lambda frame: np.save(io.BytesIO(), frame),
        lambda frame: np.savez(io.BytesIO(), x=frame),
        lambda frame: np.zeros((3, 3), np.uint8) + frame,
        lambda frame: pickle.dumps([frame]),
        lambda frame: pickle.dumps({"frame": frame}),
    ],
)
def test_a_raw_frame_refuses_to_be_read(use):
    with pytest.raises(PrivacyStop):
        use(raw())


@pytest.mark.parametrize("use", [iter, len, memoryview, vars, json.dumps, lambda frame: frame[0], lambda f: b"" + f])
def test_a_raw_frame_has_no_other_way_in(use):
    with pytest.raises(TypeError):
        use(raw())


@pytest.mark.parametrize("text", [str, repr, "{}".format, "%s".__mod__, lambda f: f"{f!r}"])
def test_a_raw_frame_shows_its_shape_and_never_a_value(text):
    shown = text(raw())
    assert "(3, 3)" in shown
    assert "uint8" in shown
    assert str(SECRET) not in shown
    assert "ab" not in shown


def test_a_raw_frame_in_a_log_shows_no_value(caplog):
    with caplog.at_level(logging.INFO):
        logging.info("frame %s %r", raw(), [raw()])
    assert "RawFrame 7" in caplog.text
    assert str(SECRET) not in caplog.text


def test_only_a_pipeline_makes_a_perturbed_frame():
    with pytest.raises(PrivacyStop):
        PerturbedFrame(1, {"frame": np.zeros(3)})
    with pytest.raises(PrivacyStop):
        PerturbedFrame(1, {"frame": np.zeros(3)}, object())


def test_a_perturbed_frame_has_memory_of_its_own_that_nobody_can_write():
    source = np.zeros((2, 2), np.uint8)
    frame = PerturbedFrame(1, {"frame": source, "code": source}, _PIPELINE)
    source[:] = 9
    assert frame.data.max() == 0
    assert not np.shares_memory(frame.data, source)
    assert frame.data is frame.outputs["frame"]
    with pytest.raises(ValueError, match="read-only"):
        frame.data[0, 0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        frame.data.setflags(write=True)
    with pytest.raises(PrivacyStop):
        frame.data = source
    with pytest.raises(TypeError):
        frame.outputs["frame"] = source


def test_a_perturbed_frame_keeps_scalars_shapes_and_types():
    outputs = perturbed().outputs
    assert list(outputs) == ["frame", "label"]
    assert outputs["label"].shape == ()
    assert outputs["label"] == 3
    assert outputs["label"].dtype == np.int64


@pytest.mark.parametrize("thing", [raw(), np.zeros((2, 2)), b"bytes", None])
def test_a_sink_takes_perturbed_frames_alone(thing):
    class Kept(Sink):
        taken = 0

        def _write(self, frame):
            self.taken += 1

    sink = Kept()
    sink.write(perturbed())
    with pytest.raises(PrivacyStop):
        sink.write(thing)
    assert sink.taken == 1


def uses(name):
    """The files of edge_runtime in which a name or an attribute occurs."""
    found = set()
    root = Path(edge_runtime.__file__).parent
    for path in root.rglob("*.py"):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if name in text else ():
            if name in (getattr(node, "id", None), getattr(node, "attr", None), getattr(node, "name", None)):
                found.add(path.relative_to(root).as_posix())
    return found


def test_nothing_but_the_pipeline_holds_the_token_that_makes_perturbed_frames():
    assert uses("_PIPELINE") == {"frames.py", "pipeline/pipeline.py", "ipc/record.py"}


def test_nothing_but_the_pipeline_and_the_identity_check_opens_a_raw_frame():
    assert uses("_data") == {
        "frames.py",
        "pipeline/pipeline.py",
        "pipeline/perturber.py",
        "pipeline/crops.py",
        "pipeline/live.py",
        "inside/aiming.py",  # edges alone, for the terminal of the one who aims it
        "inside/recording.py",  # sealed to the owner's key
        "sources/feeding.py",  # to the inside, through a pipe
        "sources/series.py",  # into windows, within the inside
        "bench/loop_rate.py",
    }


def test_rows_of_a_batch_are_copies_that_only_a_pipeline_makes():
    outputs = {"code": np.arange(6, dtype=np.int8).reshape(3, 2)}
    with pytest.raises(PrivacyStop):
        PerturbedFrame.of_rows([4, 5, 6], outputs)
    made = PerturbedFrame.of_rows([4, 5, 6], outputs, _PIPELINE)
    outputs["code"][:] = 9
    assert [(one.index, one.outputs["code"].tolist()) for one in made] == [(4, [0, 1]), (5, [2, 3]), (6, [4, 5])]
    for one in made:
        with pytest.raises(ValueError, match=r"WRITEABLE|read-only"):
            one.data.setflags(write=True)
