"""The coarse levels that a person aims a camera by: the only form in which they leave the inside."""

from typing import Dict

LEVELS = 16


NAMES = ("exposure", "dark", "bright", "near", "far", "blob", "cut", "focus")


def only_levels(numbers: Dict[str, int]) -> Dict[str, int]:
    """Of any numbers by name, those with a name from here, 15 at most: nothing else can pass. Below 0 is none."""
    return {name: min(int(numbers[name]), LEVELS - 1) for name in NAMES if numbers.get(name, -1) >= 0}
