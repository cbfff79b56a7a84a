"""edgeveil.edge_runtime.sinks: whole or not at all, nothing but perturbed frames, forgotten at a privacy stop."""

import cv2
import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame
from edgeveil.edge_runtime.manifest.manifest import Input, Output
from edgeveil.edge_runtime.sinks import open_sink


def outputs(shape=(4, 5, 1), dtype="uint8"):
    return [Output("frame", "frame", "x_out", shape, dtype, None), Output("label", "label", "label", (), "int64", None)]


def frame(index, data):
    return PerturbedFrame(index, {"frame": np.asarray(data), "label": np.int64(index % 2)}, _PIPELINE)


def pictures(n=3, shape=(4, 5, 1), dtype=np.uint8):
    return np.random.default_rng(0).integers(0, np.iinfo(dtype).max + 1, (n, *shape)).astype(dtype)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_npz_holds_frames_their_numbers_and_every_output(tmp_path):
    sink = open_sink(f"npz:{tmp_path}/out.npz", outputs())
    x = pictures()
    for index, row in zip((2, 5, 9), x, strict=True):
        sink.write(frame(index, row))
    assert names(tmp_path) == []
    sink.close()
    assert names(tmp_path) == ["out.npz"]
    with np.load(tmp_path / "out.npz", allow_pickle=False) as out:
        assert sorted(out) == ["index", "label", "x"]
        assert np.array_equal(out["x"], x)
        assert out["x"].dtype == np.uint8
        assert out["index"].tolist() == [2, 5, 9]
        assert out["index"].dtype == np.int64
        assert out["label"].tolist() == [0, 1, 1]


def test_npz_of_no_frames_has_the_right_form(tmp_path):
    open_sink(f"npz:{tmp_path}/out.npz", outputs()).close()
    with np.load(tmp_path / "out.npz") as out:
        assert out["x"].shape == (0, 4, 5, 1)
        assert out["x"].dtype == np.uint8
        assert out["index"].shape == (0,)


def test_npz_outputs_do_not_hide_each_other(tmp_path):
    shown = [output._replace(name=name) for output, name in zip(outputs(()), ("index", "x"), strict=True)]
    sink = open_sink(f"npz:{tmp_path}/out.npz", shown)
    sink.write(PerturbedFrame(7, {"index": np.uint8(1), "x": np.int64(2)}, _PIPELINE))
    sink.close()
    with np.load(tmp_path / "out.npz") as out:
        assert {name: out[name].tolist() for name in out} == {"x": [1], "index": [7], "output_x": [2]}


def test_images_are_written_as_they_come(tmp_path):
    sink = open_sink(f"images:{tmp_path}/out", outputs())
    x = pictures()
    for index, row in enumerate(x):
        sink.write(frame(index, row))
        assert len(names(tmp_path / "out")) == index + 1
    sink.close()
    assert names(tmp_path / "out") == ["00000000.png", "00000001.png", "00000002.png"]
    for name, row in zip(names(tmp_path / "out"), x, strict=True):
        assert np.array_equal(cv2.imread(str(tmp_path / "out" / name), cv2.IMREAD_UNCHANGED), row[..., 0])


@pytest.mark.parametrize(("shape", "dtype"), [((4, 5, 3), np.uint8), ((4, 5, 1), np.uint16), ((4, 5, 3), np.uint16)])
def test_images_go_there_and_back(tmp_path, shape, dtype):
    from edgeveil.edge_runtime.sources import open_source

    x = pictures(1, shape, dtype)[0]
    sink = open_sink(f"images:{tmp_path}/out", outputs(shape, np.dtype(dtype).name))
    sink.write(frame(0, x))
    sink.close()
    spec = Input("x", "image", shape, np.dtype(dtype).name, None, None)
    source = open_source(f"images:{tmp_path}/out", spec)
    assert np.array_equal(source.next()._data, x)


@pytest.mark.parametrize("kind", ["npz", "images"])
def test_what_is_discarded_is_gone(tmp_path, kind):
    (tmp_path / "out").mkdir()
    place = {"npz": "out/x.npz", "images": "out"}[kind]
    sink = open_sink(f"{kind}:{tmp_path}/{place}", outputs())
    for index, row in enumerate(pictures()):
        sink.write(frame(index, row))
    sink.discard()
    assert names(tmp_path / "out") == []


@pytest.mark.parametrize("kind", ["npz", "images"])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path, monkeypatch, kind):
    import errno

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    sink = open_sink(f"{kind}:{tmp_path}/out" + (".npz" if kind == "npz" else ""), outputs())
    monkeypatch.setattr("edgeveil.edge_runtime.util.atomic.os.fsync", full)

    def write():
        sink.write(frame(0, pictures(1)[0]))
        sink.close()

    with pytest.raises(DeviceFailed, match="no space left"):
        write()
    assert names(tmp_path) == ([] if kind == "npz" else ["out"])
    assert kind == "npz" or names(tmp_path / "out") == []


@pytest.mark.parametrize(
    ("text", "shown", "match"),
    [
        ("npz:{}/none/x.npz", outputs(), "folder that exists"),
        ("npz:{}", outputs(), "file name"),
        ("images:{}", outputs(), "has files in it"),
        ("images:{}/file", outputs(), "empty folder"),
        ("images:{}/new", outputs((4,)), "use npz"),
        ("images:{}/new", outputs((4, 5, 2)), "use npz"),
        ("images:{}/new", outputs(dtype="float32"), "uint8 or uint16"),
        ("images:{}/new", outputs()[1:], "use npz"),
        ("mqtt:broker", outputs(), "npz:FILE, preview:PORT"),
        ("npz:", outputs(), "npz:FILE"),
    ],
)
def test_a_sink_that_is_none_is_refused(tmp_path, text, shown, match):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=match):
        open_sink(text.format(tmp_path), shown)
    assert names(tmp_path) == ["file"]
