"""The artefact variants (format, precision, batch) that a kind of perturber can have."""

from __future__ import annotations

from collections.abc import Sequence

BATCH = 256
NUMPY = "numpy-float32"

_ROUGH = {
    "cleaner": "a cleaner squares, divides and takes a root, where fewer digits lose the small values: the error would "
    "no longer be eps; send the code instead (--emit code)",
    "noise": "noise this small would be lost with fewer digits",
}
_VECTORS = ("cleaner", "noise")  # so small that calling the interpreter costs more than its work


def why_not(kind: str, artefact: str) -> str | None:
    """Why a perturber of that kind has no artefact of that name (``tflite-int8``); None where it may."""
    if base(artefact).split("-")[1] != "float32":
        return _ROUGH.get(kind)
    return None


def variants_for(kind: str, wanted: Sequence[str]) -> list[str]:
    """The artefacts of this kind for boards that run ``wanted``, best first.

    Kinds of few operations are exported in batches too; a cleaner can run without an interpreter.
    """
    names = [name for name in wanted if why_not(kind, name) is None]
    if kind in _VECTORS:
        names += [f"{name}-batch{BATCH}" for name in names]
    return [*names, NUMPY] if kind == "cleaner" else names


def base(artefact: str) -> str:
    """The name without its batch, as in board profiles."""
    return artefact.partition("-batch")[0]


def batch(artefact: str) -> int:
    """How many frames an artefact of that name takes at a time."""
    return int(artefact.partition("-batch")[2] or 1)


def runs_on(artefact: str, artefacts: Sequence[str]) -> bool:
    """Whether a board that runs ``artefacts`` runs this one: every board has numpy."""
    return artefact == NUMPY or base(artefact) in artefacts
