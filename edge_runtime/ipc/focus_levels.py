"""The coarse levels of the camera aid: the only form in which they leave the inside."""

from typing import Dict

LEVELS = 16
NAMES = ("exposure", "dark", "bright", "near", "far", "blob", "cut", "focus")


def only_levels(numbers: Dict[str, int]) -> Dict[str, int]:
    """The ``numbers`` with the name of a level, 15 at most each; negative ones are omitted."""
    return {name: min(int(numbers[name]), LEVELS - 1) for name in NAMES if numbers.get(name, -1) >= 0}
