"""Engines that TensorRT built here, kept for the next start: minutes each time otherwise.

An engine is code that no bundle signed, so only one that this board itself made is read. Each is a file whose name is
the hash of what it was built from (the model, the device, every version), under a tag by HMAC-SHA256 of a key that the
board made and that never leaves it. An engine of another board, of another version, or one that was changed does not
match, and is built again. The interpreter gets a private folder with the engine in it, never the cache's own.
"""

import contextlib
import ctypes
import hashlib
import hmac
import json
import os
import tempfile
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from edgeveil.edge_runtime.paths import ENGINES
from edgeveil.edge_runtime.util.atomic import WriteFailed, write_atomic

KEY_BYTES = 32
MOST_ENGINES = 4  # the newest; a board has a release, the one before it, and seldom two models
MOST_BYTES = 2**30
_KEY, _SUFFIX = "key", ".engine"
_FACTS = ("/proc/device-tree/model", "/etc/nv_tegra_release")
_LIBRARIES = ("libnvinfer.so.10", "libnvinfer.so.8", "libnvinfer.so")


class EngineCache(object):
    """The engines in ``folder``, which only the user of this process may read. ``said`` has what happened, in words."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.said = ""
        os.chmod(folder, 0o700)
        self._key = self._read_key()

    def _read_key(self) -> bytes:
        path = os.path.join(self._folder, _KEY)
        with contextlib.suppress(OSError):
            with open(path, "rb") as file:
                key = file.read(KEY_BYTES + 1)
            if len(key) == KEY_BYTES:
                return key
        key = os.urandom(KEY_BYTES)
        write_atomic(path, key)
        os.chmod(path, 0o600)
        return key

    @contextlib.contextmanager
    def working_folder(self, built_from: Mapping[str, Any]) -> Iterator[str]:
        """A private folder for the interpreter, with the engine for ``built_from`` if there is one.

        What the interpreter wrote there by the end of the block is kept. A full disk is no error.
        """
        name = hashlib.sha256(json.dumps(built_from, sort_keys=True).encode("utf-8")).hexdigest()
        with tempfile.TemporaryDirectory() as place:
            cached = self._read(name)
            for file_name, data in (cached or {}).items():
                with open(os.path.join(place, file_name), "wb") as file:
                    file.write(data)
            self.said = "its engine was built here before" if cached else "its engine is built"
            yield place
            built = _contents(place)
            if built and built != cached:
                with contextlib.suppress(WriteFailed):
                    self._write(name, built)

    def _read(self, name: str) -> Optional[Dict[str, bytes]]:
        try:
            with open(os.path.join(self._folder, name + _SUFFIX), "rb") as file:
                data = file.read(MOST_BYTES)
        except OSError:
            return None
        tag, packed = data[:32], data[32:]
        if not hmac.compare_digest(tag, self._tag(name, packed)):
            return None
        return dict(_unpacked(packed))

    def _write(self, name: str, files: Mapping[str, bytes]) -> None:
        packed = _packed(files)
        if len(packed) + 32 > MOST_BYTES:
            return
        engines = sorted(
            (one for one in os.listdir(self._folder) if one.endswith(_SUFFIX) and one != name + _SUFFIX),
            key=lambda one: os.stat(os.path.join(self._folder, one)).st_mtime,
        )
        for old in engines[: max(0, len(engines) + 1 - MOST_ENGINES)]:
            os.unlink(os.path.join(self._folder, old))
        write_atomic(os.path.join(self._folder, name + _SUFFIX), self._tag(name, packed) + packed)

    def _tag(self, name: str, packed: bytes) -> bytes:
        return hmac.new(self._key, name.encode("ascii") + packed, hashlib.sha256).digest()


def engine_cache(folder: Optional[str] = None) -> Optional[EngineCache]:
    """The cache of this service; None where its unit gave this process no folder, as on trials and workstations."""
    folder = folder or os.environ.get("CACHE_DIRECTORY", ENGINES)
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK) or os.geteuid() == 0:
        return None
    try:
        return EngineCache(folder)
    except (OSError, WriteFailed):
        return None


def facts_of_build(model: bytes, provider: str, version: str, options: Mapping[str, Any]) -> Dict[str, Any]:
    """All that an engine hangs on: the model, its options, the board, and the versions of the libraries."""
    return {
        "model": hashlib.sha256(model).hexdigest(),
        "provider": provider,
        "options": dict(options),
        "onnxruntime": version,
        "tensorrt": _tensorrt(),
        "board": [_text(path) for path in _FACTS],
    }


def _tensorrt(load: Callable[[str], Any] = ctypes.CDLL) -> Optional[int]:
    """TensorRT's version as one number; None where it is not there (NvInferRuntimeCommon.h, getInferLibVersion)."""
    for name in _LIBRARIES:
        with contextlib.suppress(OSError, AttributeError):
            return int(load(name).getInferLibVersion())
    return None


def _text(path: str) -> Optional[str]:
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        return file.read(4096)
    return None


def _contents(place: str) -> Dict[str, bytes]:
    files = {}
    for name in sorted(os.listdir(place)):
        path = os.path.join(place, name)
        if os.path.isfile(path) and not os.path.islink(path):
            with open(path, "rb") as file:
                files[name] = file.read()
    return files


def _packed(files: Mapping[str, bytes]) -> bytes:
    head = json.dumps([[name, len(data)] for name, data in sorted(files.items())]).encode("utf-8")
    return len(head).to_bytes(4, "big") + head + b"".join(data for _, data in sorted(files.items()))


def _unpacked(packed: bytes) -> List[Tuple[str, bytes]]:
    """The files of a cache's entry, whose tag was checked."""
    begin = 4 + int.from_bytes(packed[:4], "big")
    files = []
    for name, size in json.loads(packed[4:begin].decode("utf-8")):
        files.append((os.path.basename(name), packed[begin : begin + size]))
        begin += size
    return files
