"""Facts of the machine a figure was measured on: its kind and its state, never its name."""

import os
import platform
import resource
import sys
from typing import Any, Dict, Optional


def peak_rss_bytes() -> int:
    """The most memory this process has had resident, in bytes."""
    for line in _lines("/proc/self/status"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    # Where there is no /proc. On Linux this figure would include the parent's, from before the program was loaded.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def rss_bytes() -> Optional[int]:
    """The memory this process has resident now, in bytes; None where the system does not say."""
    for line in _lines("/proc/self/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return None


def load() -> Optional[float]:
    """Runnable tasks, averaged over the last minute; None where the system does not say."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def facts() -> Dict[str, Any]:
    """Board or processor, cores, memory, system and Python, as far as the system tells."""
    return {
        "board": (_lines("/proc/device-tree/model") or [None])[0],
        "processor": _field("/proc/cpuinfo", ("model name", "Model", "Hardware")) or platform.processor() or None,
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": _memory(),
        "governor": (_lines("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or [None])[0],
        # The version alone: what distributors and sites append to it says more than a figure needs.
        "system": "{} {}".format(platform.system(), platform.release().partition("-")[0]),
        "python": platform.python_version(),
    }


def _memory() -> Optional[int]:
    kib = _field("/proc/meminfo", ("MemTotal",))
    return int(kib.split()[0]) * 1024 if kib else None


def _field(path: str, names: Any) -> Optional[str]:
    """The value of the first of ``names`` that a file of ``name: value`` lines has."""
    found: Dict[str, str] = {}
    for line in _lines(path):
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    return next((found[name] for name in names if found.get(name)), None)


def _lines(path: str) -> Any:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\0\n").splitlines()
    except OSError:
        return []
