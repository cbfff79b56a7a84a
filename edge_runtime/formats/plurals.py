"""A number with its noun, for sentences that people read: "1 piece", "2,400 rows"."""

from typing import Optional


def counted(number: int, one: str, many: Optional[str] = None) -> str:
    """``number`` with ``one``, or with ``many`` (left out: an s more) where it is not 1.

    A verb goes with its noun: ``counted(n, "row is", "rows are")``.
    """
    return "{:,} {}".format(number, one if number == 1 else many or one + "s")
