"""What a board says of its power before and after a run: its mode, whether its clocks are fixed, past throttling.

A sample each second misses a short drop. A Raspberry Pi remembers each since boot (the high bits of ``vcgencmd
get_throttled``), a Jetson has a power mode (``nvpmodel -q``) and clocks that ``jetson_clocks`` fixes.
"""

import re
from typing import Any, Dict, List, Mapping

from edgeveil.edge_runtime.bench.sensors import number, read

# Under-voltage, frequency capped, throttled, soft temperature limit: each has occurred since boot.
_PI_SINCE_BOOT = 0xF0000


def power_state(places: Mapping[str, str]) -> Dict[str, Any]:
    """What the sensors of these places say now; None for what the board does not."""
    raw = {name: read(places[name]) if name in places else None for name in _READ}
    mode = raw["power_mode"]
    said = re.search(r"NV Power Mode:\s*(\S+)", mode or "")
    bits = re.search(r"0x[0-9a-fA-F]+", raw["throttled"] or "")
    return {
        "power_mode": said.group(1) if said else mode,
        "clock_floor_mhz": number(raw["clock_floor_khz"], 1e-3),
        "clock_ceiling_mhz": number(raw["clock_ceiling_khz"], 1e-3),
        "throttled_since_boot": int(bits.group(), 16) & _PI_SINCE_BOOT if bits else None,
    }


def power_problems(before: Mapping[str, Any], after: Mapping[str, Any], places: Mapping[str, str]) -> List[str]:
    """Why a run between these two states says nothing of the board at its usual speed."""
    found = []
    new = (after["throttled_since_boot"] or 0) & ~(before["throttled_since_boot"] or 0)
    if new:
        found.append(
            "throttled: the board remembers it since the start ({:#x}); cool it, or give it a better supply".format(new)
        )
    mode, wanted = before["power_mode"], places.get("expected_power_mode")
    if after["power_mode"] != mode:
        found.append("power mode: it changed from {} to {}".format(mode, after["power_mode"]))
    if wanted and mode != wanted:
        found.append(
            "power mode: it is {}, and figures are for {}; set it (sudo nvpmodel -m 0)".format(
                mode or "not known", wanted
            )
        )
    for state in (before, after):
        low, high = state["clock_floor_mhz"], state["clock_ceiling_mhz"]
        if low is not None and high is not None and low < high:
            found.append(
                "clocks: not fixed, from {:.0f} to {:.0f} MHz; fix them (sudo jetson_clocks)".format(low, high)
            )
            break
    return found


_READ = ("power_mode", "clock_floor_khz", "clock_ceiling_khz", "throttled")
