"""An export that was broken off goes on from what it had made, and takes nothing that was made for another."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.export import export as measure
from edgeveil.trainer.export.converters.onnx_files import OnnxConverter
from edgeveil.trainer.export.converters.tf_lite import TfLite
from edgeveil.trainer.export.export import export
from edgeveil.trainer.export.kept_pieces import KeptPieces, kept_pieces

BOARDS = ["jetson-nano", "raspberry-pi-cpu"]  # ONNX, and TFLite in two precisions


@pytest.fixture(scope="module")
def whole(run):
    return export(run.folder, BOARDS, run.folder.parent / "whole")


def broken_off(monkeypatch, run, out, error):
    """Export until two of three artefacts are measured; the third meets ``error``."""
    real, measured = measure._answers, []

    def answers(fitted, one, *rest):
        if len(measured) == 2:
            raise error
        measured.append(one.name)
        return real(fitted, one, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(measure, "_answers", answers)
        with pytest.raises(type(error)):
            export(run.folder, BOARDS, out)


def counted(monkeypatch):
    """The names of what is converted and measured from now on."""
    done, real = [], measure._answers
    for kind in (OnnxConverter, TfLite):
        monkeypatch.setattr(
            kind, "convert", lambda self, *a, c=kind.convert, **k: done.append(self.name) or c(self, *a, **k)
        )
    monkeypatch.setattr(
        measure, "_answers", lambda fitted, one, *rest: done.append(one.name) or real(fitted, one, *rest)
    )
    return done


def test_what_was_made_is_not_made_again_and_the_result_is_the_same(run, whole, tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    broken_off(monkeypatch, run, out, KeyboardInterrupt())
    assert f"4 pieces of the export are kept in {tmp_path}/.out.kept; the same command continues" in (
        capsys.readouterr().err
    )
    assert [path.name for path in tmp_path.iterdir()] == [".out.kept"]
    done = counted(monkeypatch)
    resumed = export(run.folder, BOARDS, out)
    assert f"Continuing an export that was interrupted: {tmp_path}/.out.kept has 4 pieces" in capsys.readouterr().err
    assert done == ["tflite-float32"]  # the one that had not been measured
    assert resumed.members == whole.members
    assert {**resumed.report, "run": ""} == {**whole.report, "run": ""}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_error_leaves_nothing_to_resume(run, tmp_path, monkeypatch):
    broken_off(monkeypatch, run, tmp_path / "out", BadInput("no"))
    assert list(tmp_path.iterdir()) == []


def test_a_piece_is_of_all_that_it_depends_on_and_a_damaged_one_is_made_again(tmp_path):
    made = []

    def make():
        made.append(len(made))
        return {"n": np.array(len(made))}

    def piece(versions, *of):
        return int(KeptPieces(tmp_path / "kept", versions).piece(make, *of)["n"])

    x = np.arange(4, dtype=np.float32)
    assert piece({"a": "1"}, "int8", {"x": x}) == piece({"a": "1"}, "int8", {"x": x.copy()}) == 1
    others = [
        piece({"a": "2"}, "int8", {"x": x}),
        piece({"a": "1"}, "float32", {"x": x}),
        piece({"a": "1"}, "int8", {"x": x + 1}),
        piece({"a": "1"}, "int8", {"x": x.reshape(2, 2)}),
        piece({"a": "1"}, "int8", {"y": x}),
        piece({"a": "1"}, "int", "8", {"x": x}),
    ]
    assert others == [2, 3, 4, 5, 6, 7]
    for path in (tmp_path / "kept").iterdir():
        path.write_bytes(path.read_bytes()[:-30])
    assert piece({"a": "1"}, "int8", {"x": x}) == 8


@pytest.mark.nightly  # by day in this process, above; and of a training in runs/test_train.py
def test_ctrl_c_exits_130_and_the_same_command_finishes(run, whole, tmp_path):
    words = [sys.executable, "-m", "edgeveil.trainer.cli.main", "export", str(run.folder)]
    words += ["--out", str(tmp_path / "out"), *(word for board in BOARDS for word in ("--for", board))]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while process.poll() is None and not (tmp_path / ".out.kept").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert " of the export " in said
    assert " kept in " in said
    assert export(run.folder, BOARDS, tmp_path / "out").members == whole.members
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_kept_pieces_stay_where_the_process_was_killed(tmp_path):
    with kept_pieces(tmp_path / "out", {}) as kept:
        kept.piece(lambda: {"n": np.array(1)}, "a")
        (tmp_path / "copy").write_bytes(next(kept.folder.iterdir()).read_bytes())  # as a kill would leave it
    kept.folder.mkdir()
    (tmp_path / "copy").rename(kept.folder / "a.npz")
    assert len(kept) == 1
    with kept_pieces(tmp_path / "out", {}) as kept:
        assert len(kept) == 1
