"""Facts of the machine that a figure was measured on: its kind and state, never its name."""

import glob
import os
import platform
import resource
import struct
import sys
import time
from typing import Any, Dict, NamedTuple, Optional, Tuple

from edgeveil.edge_runtime.errors import BadInput

_LEAST_LIMIT_BYTES = 2**29
_MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_LEAST_MACHINE_ID = 32
CLOCKS_FROM_S = 1735689600  # 2025; a clock that was never set says less
TIMESYNC = "/run/systemd/timesync"  # of systemd-timesyncd
_WRONG_BY_US = 16000000  # from this error on, the kernel's clock is not synchronised (timedatectl)
_TIMEX = struct.Struct("@Illl")  # struct timex: modes, offset, freq, maxerror, ...
_BOOT_ID, _CLOCK_BOOTTIME = "/proc/sys/kernel/random/boot_id", 7  # which Python 3.6 has no name for


def peak_rss_bytes() -> int:
    """The peak resident memory of this process, in bytes."""
    resident = _bytes("/proc/self/status", "VmHWM")
    if resident is not None:
        return resident
    # Where there is no /proc. On Linux this figure would include the parent's, from before the program was loaded.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def rss_bytes() -> Optional[int]:
    """The resident memory of this process now, in bytes; None if the system does not report it."""
    return _bytes("/proc/self/status", "VmRSS")


def data_bytes() -> Optional[int]:
    """The memory that this process has asked for as its own, in bytes; None if the system does not report it."""
    return _bytes("/proc/self/status", "VmData")


def cpu_s(pid: int) -> Optional[float]:
    """The processor time that a process has had, in seconds; None if the system does not report it."""
    try:
        with open("/proc/{}/stat".format(pid), "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return None


def memory_bytes() -> int:
    """The memory of this machine, in bytes; 0 if the system does not report it."""
    return _bytes("/proc/meminfo", "MemTotal") or 0


def process_limit_bytes() -> int:
    """The most memory that one process may have here that runs what a bundle brought, in bytes."""
    return max(_LEAST_LIMIT_BYTES, memory_bytes() * 3 // 4)


def up_s() -> float:
    """Seconds since this start of the machine, by a clock that cannot be set; sleep counts too."""
    return time.clock_gettime(_CLOCK_BOOTTIME)


def clock_synchronised() -> Optional[bool]:
    """Whether the clock is kept right, by a time server or another source; None where the system does not report it.

    By the kernel, as timedatectl does. A unit's filter forbids that call: there, by the file of systemd-timesyncd.
    """
    error_us = _clock_error_us()
    if error_us is not None:
        return error_us < _WRONG_BY_US
    if os.path.exists(os.path.join(TIMESYNC, "synchronized")):
        return True
    return False if os.path.isdir(TIMESYNC) else None


def clock_word() -> str:
    """The same for documents and people: synchronised, not synchronised, unknown."""
    return {True: "synchronised", False: "not synchronised", None: "unknown"}[clock_synchronised()]


def _clock_error_us() -> Optional[int]:
    """The kernel's estimate of its clock's greatest error, in microseconds; None where it cannot be asked."""
    import ctypes

    answer = ctypes.create_string_buffer(512)  # zeros: nothing is set
    try:
        if ctypes.CDLL(None).adjtimex(answer) < 0:
            return None
    except (OSError, AttributeError):
        return None
    return int(_TIMEX.unpack_from(answer.raw)[3])


def uptime() -> Tuple[str, int]:
    """An identifier of this start of the machine, empty where there is none, and whole seconds since."""
    try:
        with open(_BOOT_ID) as file:
            boot = file.read(64).strip()
    except OSError:
        boot = ""
    return boot, int(up_s())


def load() -> Optional[float]:
    """Runnable tasks, averaged over the last minute; None if the system does not report it."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def machine_id() -> str:
    """The identifier of this installation of the system, which no other machine has. Raises ``BadInput``."""
    for path in _MACHINE_IDS:
        identifier = "".join(_lines(path)).strip()
        if len(identifier) >= _LEAST_MACHINE_ID and identifier.isalnum() and identifier != "uninitialized":
            return identifier
    raise BadInput(
        "expected an identifier of this machine in {}; there is none. Make one: systemd-machine-id-setup".format(
            _MACHINE_IDS[0]
        )
    )


def board() -> Optional[str]:
    """The board's model, as its device tree has it; None where there is none."""
    return (_lines("/proc/device-tree/model") or [None])[0]


# Of a Raspberry Pi's kernel; its place is another on a Pi 5 ("soc@107c000000"), and has changed between kernels.
THROTTLED = ("/sys/devices/platform/soc*/*firmware/get_throttled", "/sys/devices/platform/*firmware/get_throttled")
VOLTAGE = "/sys/class/hwmon/hwmon*/name"  # of the driver rpi_volt: under-voltage alone, for kernels without that file


class Throttled(NamedTuple):
    """The bits of ``vcgencmd get_throttled``; ``boot``: whether those of the time since the start are known."""

    bits: int
    boot: bool


def pi_throttled() -> Optional[Throttled]:
    """Whether a Raspberry Pi is throttled, by the file that is there; None where there is none, as on other boards."""
    for pattern in THROTTLED:
        for path in sorted(glob.glob(pattern)):
            try:
                return Throttled(int("".join(_lines(path)[:1]), 16), True)
            except ValueError:
                continue
    for path in sorted(glob.glob(VOLTAGE)):
        if _lines(path) == ["rpi_volt"]:
            alarm = _lines(os.path.join(os.path.dirname(path), "in0_lcrit_alarm"))
            return Throttled(int(alarm == ["1"]), False) if alarm else None
    return None


def facts() -> Dict[str, Any]:
    """Board or processor, cores, memory, system and Python, as far as the system reports them."""
    return {
        "board": board(),
        "processor": _field("/proc/cpuinfo", ("model name", "Model", "Hardware")) or platform.processor() or None,
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": _bytes("/proc/meminfo", "MemTotal"),
        "governor": (_lines("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or [None])[0],
        # Only the version: what distributors and sites append to it reveals more than a figure needs.
        "system": "{} {}".format(platform.system(), platform.release().partition("-")[0]),
        "python": platform.python_version(),
    }


def _bytes(path: str, name: str) -> Optional[int]:
    kib = _field(path, (name,))
    return int(kib.split()[0]) * 1024 if kib else None


def _field(path: str, names: Any) -> Optional[str]:
    """The value of the first of ``names`` that a file of ``name: value`` lines has."""
    fields: Dict[str, str] = {}
    for line in _lines(path):
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    return next((fields[name] for name in names if fields.get(name)), None)


def _lines(path: str) -> Any:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\0\n").splitlines()
    except OSError:
        return []
