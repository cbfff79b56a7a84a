"""The tallies of an acceptance, from the device's preview page or a file."""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from edgeveil.edge_runtime.errors import BadInput, DeviceFailed

MOST_BYTES = 2**22
TIMEOUT_S = 10.0

Count = Annotated[int, Field(ge=0, le=2**31)]
Number = Annotated[int, Field(ge=-(2**31), le=2**31)]  # with noise, a count may be negative


class _Checked(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class TappedClass(_Checked):
    """How often ``y`` was there while ``y_hat`` was out, in one minute."""

    minute: Count
    y: Count
    y_hat: Number
    taps: Annotated[int, Field(ge=1)]


class TappedLine(_Checked):
    """[in, out] over one line in one period: what was tapped, and what was counted."""

    period: Count
    line: str
    tapped: Annotated[list[Count], Field(min_length=2, max_length=2)]
    counted: Annotated[list[Number], Field(min_length=2, max_length=2)]


class Left(_Checked):
    """How often each code left meanwhile, and how many independent releases these are worth."""

    output: str
    counts: Annotated[list[Count], Field(min_length=1)]
    effective: Annotated[float, Field(ge=0)]


class SiteTallies(_Checked):
    """What ``preview:PORT?accept=30m`` gives at /acceptance.json."""

    kind: Literal["edgeveil-acceptance"]
    schema_: Annotated[Literal[1], Field(alias="schema")]
    bundle: str
    manifest_sha256: str
    minutes: Annotated[float, Field(gt=0)]
    seconds: Count
    taps: Count
    y: list[TappedClass]
    counts: list[TappedLine]
    histogram: Left | None


def read_tallies(place: str, token: str | None = None) -> SiteTallies:
    """The tallies at an address (http://HOST:PORT) or in a file. Raises ``BadInput``, ``DeviceFailed``."""
    data = _fetched(place, token) if place.startswith(("http://", "https://")) else _read(Path(place))
    try:
        return SiteTallies.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"])) or "the document"
        raise BadInput(
            f"Tallies of an acceptance were expected at {place}: {at}: {first['msg']}. Take /acceptance.json of a "
            "device that runs with --sink 'preview:8080?accept=30m'."
        ) from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()[: MOST_BYTES + 1]
    except OSError as error:
        problem = (error.strerror or "it cannot be read").lower()
        raise BadInput(
            f"Tallies of an acceptance were expected at {path}: {problem}. Name a file, or a preview as http://HOST:PORT."
        ) from None


def _fetched(place: str, token: str | None) -> bytes:
    try:
        parts = urllib.parse.urlsplit(place)  # of the address of any of its pages
        there = bool(parts.hostname) and parts.port != 0
    except ValueError:
        there = False
    if not there:
        raise BadInput(f"A preview was expected as http://HOST:PORT; got {place!r}. Correct --tallies.")
    asked = urllib.request.Request(f"{parts.scheme}://{parts.netloc}/acceptance.json")  # noqa: S310 - http(s) alone
    if token is not None:
        asked.add_header("Authorization", "Bearer " + token)
    try:
        with urllib.request.urlopen(asked, timeout=TIMEOUT_S) as answer:  # noqa: S310
            return bytes(answer.read(MOST_BYTES))
    except urllib.error.HTTPError as error:
        advice = "give its token with --token-file" if error.code == 403 else "run it with preview:PORT?accept=30m"
        raise BadInput(f"{place} answered {error.code}, and no tallies: {advice}.") from None
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "reason", error))
        raise DeviceFailed(f"{place} cannot be reached ({reason}): is the service running there?") from None
