"""A board's own sensors while it is timed: clock, governor, temperatures, throttling, power.

Their places are facts of the board: a profile's ``[sensors]``, passed as JSON. A place is a file's path, or ``!`` and a
command that prints the value, or ``zone:`` and the types of thermal zones, whose numbers differ between systems:
``zone:CPU-therm|cpu-thermal``. A sensor that does not answer is ``None``: not measured.
"""

import grp
import json
import os
import pwd
import re
import shlex
import statistics
import subprocess
from typing import Any, Callable, Dict, List, Mapping, Optional

from edgeveil.edge_runtime.errors import BadInput, written_text
from edgeveil.edge_runtime.machine import pi_throttled
from edgeveil.edge_runtime.util import filesystem

NAMES = (
    *("clock_khz", "governor", "temperature_millic", "gpu_temperature_millic", "throttled", "power_mw", "power_uw"),
    # read before and after a run (``power_state``); the expected one is no place but a word
    *("power_mode", "expected_power_mode", "clock_floor_khz", "clock_ceiling_khz"),
)
SAMPLED = NAMES[:7]
ZONES = "/sys/class/thermal"
VCGENCMD = "!vcgencmd get_throttled"  # in the profiles of Raspberry Pis
MOST_SAMPLES = 3600
LEAST_CLOCK = 0.9  # of the highest clock in the run: below, the board has throttled
# vcgencmd get_throttled, its current state: under-voltage, frequency capped, throttled, soft temperature limit.
_PI_NOW = 0x0F


def parse(text: Optional[str]) -> Dict[str, str]:
    """``--sensors``: a JSON object, or the path of a file that holds one. Raises ``BadInput``."""
    if not text:
        return {}
    if not text.lstrip().startswith("{"):
        text = written_text(text, "a JSON file of sensors")
    try:
        sensors = json.loads(text)
    except ValueError:
        sensors = None
    if not isinstance(sensors, dict) or not all(isinstance(value, str) for value in sensors.values()):
        raise BadInput('expected sensors as JSON, {"clock_khz": "/sys/..."}; see docs/reference/benchmarks.md')
    for name in sensors:
        if name not in NAMES:
            raise BadInput("expected sensors among {}; got {!r}".format(", ".join(NAMES), name))
    return sensors


class Sensors(object):
    """Reads the named places, at most every ``every_s`` seconds, into ``samples``."""

    def __init__(self, places: Mapping[str, str], *, every_s: float = 1.0) -> None:
        self._places = {name: place for name, place in places.items() if name in SAMPLED}
        self._every_s = every_s
        self._next_s = 0.0
        self.samples: List[Dict[str, Any]] = []

    def sample(self, now_s: float) -> None:
        """Take a sample if one is due; ``now_s`` is the time since the run began."""
        if not self._places or now_s < self._next_s or len(self.samples) >= MOST_SAMPLES:
            return
        self._next_s = now_s + self._every_s
        raw = {name: read(place) for name, place in self._places.items()}
        power_w = number(raw.get("power_mw"), 1e-3)
        self.samples.append(
            {
                "at_s": round(now_s, 3),
                "clock_mhz": number(raw.get("clock_khz"), 1e-3),
                "governor": raw.get("governor"),
                "temperature_c": number(raw.get("temperature_millic"), 1e-3),
                "gpu_temperature_c": number(raw.get("gpu_temperature_millic"), 1e-3),
                "throttled": _throttled(raw.get("throttled")),
                "power_w": number(raw.get("power_uw"), 1e-6) if power_w is None else power_w,
            }
        )

    def problems(self) -> List[str]:
        """The signs that the board was throttled in the run."""
        signs = []
        if any(sample["throttled"] for sample in self.samples):
            signs.append("throttled: the board says so; cool it, or give it a better supply")
        clocks = [sample["clock_mhz"] for sample in self.samples if sample["clock_mhz"]]
        # A governor that saves power is slow before the first frame; the end of the run counts.
        last = statistics.median_high(clocks[-max(1, len(clocks) // 4) :]) if clocks else 0.0
        if clocks and last < LEAST_CLOCK * max(clocks):
            signs.append(
                "throttled: the clock fell from {:.0f} to {:.0f} MHz; cool it, or fix the governor".format(
                    max(clocks), last
                )
            )
        return signs

    def power_w(self) -> Optional[float]:
        """The mean power by the board's own sensor; None: not measured."""
        powers = [sample["power_w"] for sample in self.samples if sample["power_w"] is not None]
        return sum(powers) / len(powers) if powers else None


def zone_of(types: str) -> Optional[str]:
    """The temperature file of the first thermal zone of one of these types, ``CPU-therm|cpu-thermal``; None without."""
    zones: Dict[Optional[str], str] = {}
    for name in sorted(os.listdir(ZONES)) if os.path.isdir(ZONES) else []:
        zones.setdefault(read(os.path.join(ZONES, name, "type")), os.path.join(ZONES, name, "temp"))
    return next((zones[kind] for kind in types.split("|") if kind in zones), None)


def read(place: str, run: Callable[..., bytes] = subprocess.check_output) -> Optional[str]:
    """What a place says, as text; None where it does not answer."""
    try:
        if place.startswith("zone:"):
            place = zone_of(place[len("zone:") :]) or ""
        if place.startswith("!"):
            command = shlex.split(place[1:])
            data = run(command, stderr=subprocess.DEVNULL, timeout=5, preexec_fn=None if os.geteuid() else _as_nobody())
        else:
            data = filesystem.read_strict(os.path.expanduser(place), 4096, links=True) or b""  # a pipe would hold it up
    except (OSError, subprocess.SubprocessError, ValueError):
        # Ubuntu's image for a Pi has no vcgencmd.
        found = pi_throttled() if place == VCGENCMD else None
        return None if found is None else "throttled={:#x}".format(found.bits)
    return data.decode("utf-8", "replace").strip() or None


def _as_nobody() -> Callable[[], None]:
    """What takes root's rights from a command: it comes from a profile. A Pi's firmware answers its group video."""
    user, groups = pwd.getpwnam("nobody"), [one.gr_gid for one in grp.getgrall() if one.gr_name == "video"]

    def become() -> None:
        os.setgroups(groups)
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)

    return become


def number(text: Optional[str], scale: float) -> Optional[float]:
    """A text as a number times ``scale``; None where it is none."""
    try:
        return None if text is None else round(float(text) * scale, 6)
    except ValueError:
        return None


def _throttled(text: Optional[str]) -> Optional[bool]:
    """Whether ``throttled=0x50005`` (a Raspberry Pi) or a plain number says so."""
    match = re.search(r"(0x[0-9a-fA-F]+|\d+)\s*$", text or "")
    if match is None:
        return None
    value = int(match.group(1), 0)
    return bool(value & _PI_NOW) if "0x" in match.group(1) else bool(value)
