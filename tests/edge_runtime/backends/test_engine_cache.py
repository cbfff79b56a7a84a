"""Engines that a board built are kept, and only its own are read; a stand-in for ONNX Runtime builds them here."""

import os
import stat
from pathlib import Path

import pytest

from edgeveil.devices import profiles
from edgeveil.devices.flashing import service_files
from edgeveil.edge_runtime.backends import engine_cache
from edgeveil.edge_runtime.backends.engine_cache import MOST_ENGINES, EngineCache, facts_of_build
from edgeveil.edge_runtime.paths import ENGINES

onnx = pytest.importorskip("edgeveil.edge_runtime.backends.onnx")
ENGINE = "TensorrtExecutionProvider_TRTKernel_graph_0_fp16.engine"


class TensorRT:
    """What ONNX Runtime does with its options: it reads an engine that is there, or builds one."""

    built, read = 0, []

    def __init__(self, model, _options, providers, **_):
        (name, options), *_ = providers
        self.name = name
        path = Path(options.get("trt_engine_cache_path", ""), ENGINE)
        if options.get("trt_engine_cache_enable") and path.exists():
            TensorRT.read.append(path.read_bytes())
            return
        TensorRT.built += 1
        if options.get("trt_engine_cache_enable"):
            path.write_bytes(b"engine of " + model)

    def get_providers(self):
        return [self.name]

    def disable_fallback(self):
        pass


@pytest.fixture
def board(tmp_path, monkeypatch):
    """Opens a model on a board's TensorRT; its unit's folder is ``tmp_path / "cache"``."""
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(onnx.onnxruntime, "InferenceSession", TensorRT)
    monkeypatch.setattr(onnx.onnxruntime, "get_available_providers", lambda: ["TensorrtExecutionProvider"])
    monkeypatch.setattr(engine_cache.os, "geteuid", lambda: 1001)
    monkeypatch.setattr(onnx, "engine_cache", lambda: engine_cache.engine_cache(str(tmp_path / "cache")))
    monkeypatch.setattr(TensorRT, "built", 0)
    monkeypatch.setattr(TensorRT, "read", [])

    def opened(model=b"model", precision="float32"):
        onnx._open_on_gpu(model, None, "tensorrt", precision)
        return TensorRT.built

    opened.folder = tmp_path / "cache"
    return opened


def engines(board):
    return sorted(board.folder.glob("*.engine"))


def test_an_engine_is_built_once_and_read_from_then_on(board):
    assert board() == 1
    assert board() == 1
    assert TensorRT.read == [b"engine of model"]
    assert stat.S_IMODE(board.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((board.folder / "key").stat().st_mode) == 0o600


@pytest.mark.parametrize("change", ["model", "precision", "onnxruntime", "tensorrt", "board"])
def test_whatever_it_was_built_from_has_changed_it_is_built_again(board, change, monkeypatch, tmp_path):
    board()
    if change == "onnxruntime":
        monkeypatch.setattr(onnx.onnxruntime, "__version__", "9.9")
    if change == "tensorrt":
        monkeypatch.setattr(engine_cache, "_tensorrt", lambda: 8201)
    if change == "board":
        (tmp_path / "model").write_text("NVIDIA Jetson Nano\0")
        monkeypatch.setattr(engine_cache, "_FACTS", (str(tmp_path / "model"),))
    more = {"model": {"model": b"other"}, "precision": {"precision": "int8"}}.get(change, {})
    assert board(**more) == 2
    assert TensorRT.read == []


@pytest.mark.parametrize("how", ["changed", "cut", "empty", "renamed", "of-another-board"])
def test_an_engine_that_this_board_did_not_make_is_not_read(board, how):
    board()
    board(b"other")
    mine, other = engines(board)
    data = mine.read_bytes()
    if how == "renamed":  # another model's engine under this one's name
        other.write_bytes(data)
        mine.write_bytes(other.read_bytes()[:-1] + b"x")
    elif how == "of-another-board":
        (board.folder / "key").write_bytes(os.urandom(32))
    else:
        for path in (mine, other):
            path.write_bytes({"changed": data[:-1] + b"x", "cut": data[:20], "empty": b""}[how])
    assert board() + board(b"other") == 3 + 4
    assert TensorRT.read == []


def test_only_a_few_are_kept(board):
    for number in range(MOST_ENGINES + 3):
        board(b"%d" % number)
    assert len(engines(board)) == MOST_ENGINES


def test_a_full_disk_and_a_place_without_a_folder_build_it_each_time(board, monkeypatch, tmp_path):
    def full(*_):
        raise engine_cache.WriteFailed("no space")

    board()
    monkeypatch.setattr(engine_cache, "write_atomic", full)
    assert board(b"other") == 2
    assert board(b"other") == 3
    assert engine_cache.engine_cache(str(tmp_path / "none")) is None
    monkeypatch.setattr(engine_cache.os, "geteuid", lambda: 0)
    assert engine_cache.engine_cache(str(board.folder)) is None


def test_a_broken_key_is_replaced(tmp_path):
    (tmp_path / "key").write_bytes(b"short")
    EngineCache(str(tmp_path))
    assert len((tmp_path / "key").read_bytes()) == 32


def test_what_an_engine_hangs_on_has_the_versions_of_the_libraries():
    class Library:
        def getInferLibVersion(self):
            return 8201

    assert engine_cache._tensorrt(lambda _name: Library()) == 8201
    found = facts_of_build(b"model", "TensorrtExecutionProvider", "1.11.0", {"trt_fp16_enable": True})
    assert set(found) == {"model", "provider", "options", "onnxruntime", "tensorrt", "board"}


@pytest.mark.parametrize(
    ("source", "device", "has"), [("camera:0", "tensorrt", 1), ("camera:0", "cpu", 0), ("gst:x", "tensorrt", 0)]
)
def test_the_unit_has_a_folder_for_engines_where_the_source_writes_no_files(source, device, has):
    made = service_files.files("/opt/edgeveil", source, ["none"], profiles.load("jetson-nano"), device)
    text = made["/etc/systemd/system/edgeveil-inside.service"].decode()
    assert text.count(f"\nCacheDirectory={ENGINES.rpartition('/')[2]}\n") == has
    assert ENGINES.startswith("/var/cache/")
