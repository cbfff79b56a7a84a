"""The facts of a board: gathered on the board, printed as JSON, evaluated on the workstation.

This file is also sent alone to a board that has no EdgeVeil yet, so it imports the standard library and nothing else.
"""

import ctypes
import hashlib
import importlib
import json
import os
import platform
import subprocess
import sys
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

SYSTEMD = "/run/systemd/system"

BITS = 64 if sys.maxsize > 2**32 else 32
USB = "/sys/bus/usb/devices"
SETTINGS = "/etc/edgeveil/edge.json"
LEDGER = "/var/lib/edgeveil/ledger"
SERVICE_FILES = (
    SETTINGS,
    "/etc/systemd/system/edgeveil.service",
    "/etc/systemd/system/edgeveil-inside.service",
    "/etc/systemd/system/edgeveil-recover.service",
    "/etc/systemd/system/edgeveil-update.service",
    "/etc/systemd/system/edgeveil-update.timer",
)
INTERPRETERS = ("ai_edge_litert", "tflite_runtime", "onnxruntime", "openvino", "numpy", "cv2")


def gather(root: str, accelerator: Optional[str] = None, paths: Iterable[str] = ()) -> Dict[str, Any]:
    """A dict of facts. ``root``: EdgeVeil's folder; ``accelerator``: the path that shows that there is one.

    ``paths`` are put in front of ``sys.path`` (unpacked wheels). Unknown facts are None.
    """
    sys.path[:0] = list(paths)
    place = root
    while not os.path.isdir(place):
        place = os.path.dirname(place) or "/"
    space = os.statvfs(place)
    return {
        "schema": 1,
        "architecture": _architecture(),
        "bits": BITS,
        "board": _text("/proc/device-tree/model"),
        "system": _os_release(),
        "python": "{}.{}.{}".format(*sys.version_info[:3]),
        "executable": sys.executable,
        "glibc": platform.libc_ver()[1] or None,
        "free_bytes": space.f_bavail * space.f_frsize,
        "read_only": bool(space.f_flag & 1) or not _writable(place),
        "uid": os.getuid(),
        "sudo": os.getuid() == 0 or _runs(["sudo", "-n", "true"]),
        "systemd": os.path.isdir(SYSTEMD),
        "interpreters": {name.replace("_", "-"): version for name, version in _versions() if version},
        "accelerator": None if accelerator is None else _present(accelerator),
        "devices": _devices(),
        "ledger": os.path.lexists(LEDGER),
        "edgeveil": _edgeveil(root),
    }


def _architecture() -> str:
    """The architecture of the programs here: a 32-bit system may run on a 64-bit kernel, which reports its own."""
    machine = platform.machine()
    return "armv7l" if machine == "aarch64" and BITS == 32 else machine


def _present(accelerator: str) -> bool:
    """Whether a device file exists, or for ``usb:1a6e:089a,18d1:9302`` one of these USB devices."""
    if not accelerator.startswith("usb:"):
        return os.path.exists(accelerator)
    wanted = accelerator[len("usb:") :].split(",")
    folders = [os.path.join(USB, name) for name in (os.listdir(USB) if os.path.isdir(USB) else [])]
    numbers = [[_text(os.path.join(folder, name)) or "" for name in ("idVendor", "idProduct")] for folder in folders]
    return any(":".join(number) in wanted for number in numbers)


def _devices() -> List[str]:
    """The accelerators that the installed interpreters can use, as words of ``--device``."""
    found = []
    try:
        ctypes.CDLL("libedgetpu.so.1")
        found.append("edgetpu")
    except OSError:
        pass
    # Some versions cannot be loaded here, and older ones lack this function.
    try:
        providers = importlib.import_module("onnxruntime").get_available_providers()
        words = (("CUDAExecutionProvider", "cuda"), ("TensorrtExecutionProvider", "tensorrt"))
        found += [word for name, word in words if name in providers]
    except Exception:  # noqa: S110 - then it cannot be used
        pass
    try:
        library = importlib.import_module("openvino")
        library = library if hasattr(library, "Core") else importlib.import_module("openvino.runtime")
        found += ["myriad"] if any(name.startswith("MYRIAD") for name in library.Core().available_devices) else []
    except Exception:  # noqa: S110 - then it cannot be used
        pass
    return found


def _settings_device() -> Optional[str]:
    """The device in the service's settings; None without settings, "" if they cannot be read."""
    path = SETTINGS
    if not os.path.exists(path):
        return None
    try:
        return json.loads(_text(path) or _as_root(["cat", path]) or "").get("device", "cpu")
    except (ValueError, AttributeError):
        return ""


def _edgeveil(root: str) -> Optional[Dict[str, Any]]:
    """The installed EdgeVeil; None if the board was never flashed."""
    state = _json(os.path.join(root, "state.json"))
    folder = os.path.join(root, "trust")
    file = _json(os.path.join(folder, "trust.json"))
    if state is None and file is None:
        return None
    payload = json.loads(file["payload"]) if file else {}
    makers = payload["roles"]["maker"] if "roles" in payload else payload  # schema 2, schema 1
    return {
        "committed": (state or {}).get("committed"),
        "floor": max((state or {}).get("floor", 0), payload.get("security_version", 0)),
        "root_key": ((_text(os.path.join(folder, "root.pub")) or "").split() + ["", ""])[1] or None,
        "trust_version": payload.get("version", 0),
        "keys": [entry["key"] for entry in makers.get("keys", [])],
        "revoked": payload.get("revoked", []),
        "audience": payload.get("audience", ""),
        "wheels": sorted(name for name in os.listdir(root) if name.startswith("site-")) if os.path.isdir(root) else [],
        "runtime": os.path.exists(os.path.join(root, "runtime", "current", "edgeveil-edge.pyz")),
        "service": os.path.exists("/etc/systemd/system/edgeveil.service"),
        "device": _settings_device(),
        "service_files": {path: _sha256(path) for path in SERVICE_FILES if os.path.exists(path)},
        "service_active": _runs(["systemctl", "--quiet", "is-active", "edgeveil.service"]),
    }


def _versions() -> Iterator[Tuple[str, Optional[str]]]:
    for name in INTERPRETERS:
        try:
            yield name, getattr(importlib.import_module(name), "__version__", "unknown")
        except Exception:  # an interpreter that cannot be loaded counts as missing
            yield name, None


def _os_release() -> Optional[str]:
    fields = dict(line.split("=", 1) for line in (_text("/etc/os-release") or "").splitlines() if "=" in line)
    return fields.get("PRETTY_NAME", "").strip('"') or None


def _writable(place: str) -> bool:
    return os.access(place, os.W_OK) or os.getuid() != 0


def _runs(command: List[str]) -> bool:
    try:
        with open(os.devnull, "r+b") as nothing:
            return subprocess.call(command, stdin=nothing, stdout=nothing, stderr=nothing) == 0  # noqa: S603 - fixed commands
    except OSError:
        return False


def _sha256(path: str) -> Optional[str]:
    """None if neither this user nor root can read it."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        pass
    line = _as_root(["sha256sum", path])
    return line.split()[0] if line else None


def _as_root(command: List[str]) -> Optional[str]:
    """The output of a command as root, by sudo; None if that fails."""
    try:
        with open(os.devnull, "r+b") as nothing:
            output = subprocess.check_output(["sudo", "-n"] + command, stdin=nothing, stderr=nothing)  # noqa: S603 - ours
        return output.decode("utf-8", "replace")
    except (OSError, subprocess.CalledProcessError):
        return None


def _text(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\0\n")
    except OSError:
        return None


def _json(path: str) -> Any:
    try:
        return json.loads(_text(path) or "null")
    except ValueError:
        return None


if __name__ == "__main__":
    print(json.dumps(gather(sys.argv[1], sys.argv[2] or None, sys.argv[3:])))
