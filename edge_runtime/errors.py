"""Every error EdgeVeil raises on purpose, and the exit code each one ends a command with.

::

    EdgeVeilError
     +-- BadInput          2   the user's mistake: a wrong value, file or option
     |    +-- BundleRefused    2   a bundle that is not exactly what a trusted key signed
     +-- LimitNotMet       3   it worked, and the result is worse than the limit that was set
     +-- DeviceFailed      4   the device or its environment failed
     |    +-- SourceFailed     4   no more frames will come from this source
     |         +-- Disconnected    it went away; opening it again later may help
     |         +-- Stalled         it is there and gives nothing new; opening it again may help
     |         +-- Unsupported     it cannot give what the bundle asks for; only a person can help
     |              +-- Missing    2   a library or program for it is not installed
     +-- PrivacyStop      70   stopped so that nothing more leaves
    FrameDropped               one frame could not be perturbed; counted, never shown

A message is one sentence or two: what was expected, what came, what to do next.
It may name shapes, dtypes, counts and paths. It never holds a value of a frame.
"""

import os
from typing import Any, Dict, Iterable, List, Optional

SPENT = "budget-spent"  # why a release was dropped: its limits allow no more


class EdgeVeilError(Exception):
    """The base of every error raised on purpose. ``exit_code`` is what a command ends with."""

    exit_code = 2


class BadInput(EdgeVeilError):
    """A value, file or option from the user is not what it must be."""


class BundleRefused(BadInput):
    """A bundle is not exactly what a trusted key signed.

    ``reason`` is a short fixed word for the rule that was broken (``"truncated"``, ``"bad-signature"``),
    so that tests, logs and counters can tell refusals apart; the message is for people.
    """

    def __init__(self, reason: str, message: str) -> None:
        super(BundleRefused, self).__init__(message)
        self.reason = reason


class LimitNotMet(EdgeVeilError):
    """The work was done and its result is worse than the limit that was set for it."""

    exit_code = 3


class DeviceFailed(EdgeVeilError):
    """The device or its environment failed: no backend, no space, no camera."""

    exit_code = 4


class SourceFailed(DeviceFailed):
    """The source broke down: no more frames will come."""


class Disconnected(SourceFailed):
    """The device was unplugged or the connection closed. To open it again after a while may help."""


class Stalled(SourceFailed):
    """The device is there and gives nothing new. To open it again may help."""


class Unsupported(SourceFailed):
    """The device cannot give frames as the bundle needs them. To open it again will not help."""


class Missing(Unsupported):
    """What the source is read with is not installed. The user cures it: exit code 2."""

    exit_code = 2


class PrivacyStop(EdgeVeilError):
    """Something says that raw data could leave: stop, and let nothing more out."""

    exit_code = 70


class FrameDropped(Exception):
    """One frame could not be perturbed. ``reason`` is the counter it goes to; the sentence has no value of it."""

    def __init__(self, reason: str) -> None:
        super(FrameDropped, self).__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        why = {
            "dtype": "its type is not that of the bundle's input (manifest.input.dtype)",
            "shape": "its shape is not that of the bundle's input (manifest.input.shape)",
            "not-finite": "it holds a value that is no number",
        }.get(self.reason, "docs/reference/edge-runtime.md describes this reason")
        return "This frame was dropped ({}): {}.".format(self.reason, why)


def reason(error: BaseException) -> str:
    """Why something failed, for a sentence that says which file it was: the system's words without number and path."""
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).rstrip(".")


def shown(text: Any) -> str:
    """A text for a terminal: what others wrote in it may not command that, nor turn letters round."""
    return "".join(
        one if one.isprintable() or one in "\n\t\u00a0" or "\ud800" <= one <= "\udfff" else "?" for one in str(text)
    )


def written_text(path: Any, what: str, *, most: int = 2**24) -> str:
    """The text of a file that a person wrote: UTF-8, with or without a byte order mark, at most ``most`` bytes.

    ``what`` names it in a sentence. Raises ``BadInput``, which quotes nothing of the text: it may be a secret.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise BadInput("{} was expected in {}, of at most {:,} bytes; it has more".format(what, path, most))
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = "{} was expected in {} as UTF-8 text, and line {} is not. Save the file as UTF-8."
        raise BadInput(problem.format(what, path, line)) from None
    except OSError as error:
        raise BadInput("{} was expected in {}, which cannot be read: {}".format(what, path, reason(error))) from None


def describe(error: BaseException) -> str:
    """An unexpected error by its kind and its place in the code; its text could hold a value of a frame."""
    import traceback  # a start without an unexpected error is spared it

    place = traceback.extract_tb(error.__traceback__)[-1]
    return "{} at {}:{}".format(type(error).__name__, os.path.basename(place.filename), place.lineno)


# Words of earlier versions that were deleted: each is refused with one sentence, which names what replaces it.
#
# A key is a command (``reports``), its option (``run --turn``), which is a setting of ``edge.json`` too, a stage kind
# of a manifest (``stage gradient``), or an option of a source's or sink's address (``?accept``).


_ROUNDS = (
    "training by rounds over MQTT was deleted: send private reports and estimate from them with edgeveil local "
    "collect; commit baecb1ef of EdgeVeil has it"
)
GONE: Dict[str, str] = {
    "report": "signed reports were deleted: read TOPIC/status of an MQTT sink, or let Mender or RAUC update the board "
    "and report; commit baecb1ef of EdgeVeil has them",
    "run --model": _ROUNDS,
    "run --turn": _ROUNDS,
    "inside --subject-column": "a service counts all it sends as one unit: use --subject-column from csv: to a file; "
    "commit baecb1ef of EdgeVeil has it",
    "stage parameters": _ROUNDS,
    "stage gradient": _ROUNDS,
    "?accept": "taps of an operator were deleted: a service compares what it sends with its audit by itself (shift in "
    "/healthz, on_shift of a policy); commit baecb1ef of EdgeVeil has them",
}


def nearest(word: str, known: Iterable[str]) -> str:
    """The known name that a mistyped or shortened word is nearest to; empty where none is near."""
    import difflib

    names = {"".join(filter(str.isalnum, name.lower())): name for name in sorted(known, reverse=True)}
    short = "".join(filter(str.isalnum, word.lower()))
    close = difflib.get_close_matches(short, names, 1, 0.8) if short not in names else [short]
    within = sorted((name for name in names if len(short) > 2 and short in name), key=len)
    return next((names[name] for name in close + within + difflib.get_close_matches(short, names, 1)), "")


def refused(argv: List[str]) -> Optional[str]:
    """Why a command line cannot run any more; None where no command or option of it was deleted."""
    words = [" ".join(argv[:1]), " ".join(argv[:2])]
    words += [argv[0] + " " + word.partition("=")[0] for word in argv[1:] if word.startswith("--")]
    return next(("{}: {}".format(word, GONE[word]) for word in words if word in GONE), None)
