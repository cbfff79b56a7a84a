"""What a person says of a series on the command line: how fast its steps come, and what its channels are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.columns import listed, read_table

CHANNELS = "ax:g,ay:g,az:g"
EXAMPLE = f"--rate 50 --channels {CHANNELS}"


@dataclass(frozen=True)
class Steps:
    """The words of the command: ``channels`` as NAME:UNIT,...; ``window`` and ``hop`` in steps.

    ``window`` and ``time``, a column of seconds, are of recordings, which are cut into windows.
    """

    rate: float | None = None
    channels: str | None = None
    window: int | None = None
    hop: int | None = None
    time: str | None = None

    def given(self) -> list[str]:
        """The options that were given, with their values."""
        return [f"--{name} {value}" for name, value in asdict(self).items() if value is not None]

    def section(self, source: str, path: Path) -> dict[str, Any] | None:
        """``[data.series]``; None where the samples are no series. Raises ``BadInput`` with what is missing."""
        recordings = is_folder(source, path)
        if not self.given() and not recordings:
            return None
        if source != "npz" and not recordings:
            raise BadInput(
                f"{self.given()[0]} is of a series: an .npz with x (N, steps, channels), or csv:FOLDER with a file for "
                "each recording. Leave it out."
            )
        needed = ("rate", "channels", *(("window", "hop", "time") if recordings else ()))
        missing = [name for name in needed if getattr(self, name) is None]
        if missing:
            raise BadInput(
                f"{path}: of a series {', '.join(f'--{name}' for name in missing)} must be said{_seen(path)}, as in "
                f"{EXAMPLE}{' --window 100 --hop 25 --time seconds' if recordings else ''}."
            )
        if not recordings and (self.window is not None or self.time is not None):
            raise BadInput("--window and --time are of recordings, csv:FOLDER: each x of an .npz is a window already.")
        names, units = zip(*map(_channel, str(self.channels).split(",")), strict=True)
        section = {"length": self.window, "hop": self.hop, "rate_hz": self.rate, "channels": names, "units": units}
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in section.items()
            if value is not None
        }


NO_SERIES = Steps()


def is_folder(source: str, path: Path) -> bool:
    """Whether the data are recordings: a folder of csv files."""
    return source == "csv" and path.is_dir()


def _channel(word: str) -> tuple[str, str]:
    name, _, unit = (part.strip() for part in word.partition(":"))
    if not name or not unit:
        raise BadInput(f'--channels: expected a name and a unit for each, as in {CHANNELS}; got "{word}".')
    return name, unit


def _seen(path: Path) -> str:
    """The columns of the first recording in a folder."""
    first = next(iter(sorted(path.glob("*.csv"))), None) if path.is_dir() else None
    return "" if first is None else f" ({first.name} has the columns {listed(read_table('csv', first).columns)})"
