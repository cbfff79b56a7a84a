"""Words of earlier versions that were deleted: each is refused with one sentence, which names what replaces it.

A key is a command (``reports``), its option (``run --turn``), which is a setting of ``edge.json`` too, a stage kind of
a manifest (``stage gradient``), or an option of a source's or sink's address (``?accept``).
"""

from typing import Dict, List, Optional

_ROUNDS = (
    "training by rounds over MQTT was deleted: send private reports and estimate from them with edgeveil collect; "
    "commit baecb1ef of EdgeVeil has it"
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


def refused(argv: List[str]) -> Optional[str]:
    """Why a command line cannot run any more; None where no command or option of it was deleted."""
    words = [" ".join(argv[:1]), " ".join(argv[:2])]
    words += [argv[0] + " " + word.partition("=")[0] for word in argv[1:] if word.startswith("--")]
    return next(("{}: {}".format(word, GONE[word]) for word in words if word in GONE), None)
