"""Names that have changed: an old one is refused with its new name; and keys that were deleted."""

from __future__ import annotations

from collections.abc import Mapping

from edgeveil.edge_runtime.errors import BadInput

KINDS = {"release": "codebook"}
RECIPES = {
    "digits-release": "digits-codebook",
    "mnist-release": "mnist-codebook",
    "faces-release": "faces-codebook",
    "wifi-release": "wifi-codebook",
    "depth-release": "depth-codebook",
    "depth-release-frame": "depth-codebook-frame",
    "depth-release-movement": "depth-codebook-movement",
}

_ROUNDS = (
    "training by rounds over MQTT was deleted: report readings and estimate their mean with edgeveil collect, or train "
    "on recorded or simulated private gradients with edgeveil.trainer.collect.lpsgd; commit baecb1ef has it"
)
# By section, kind and key, and by a value of a key: what replaces it.
GONE = {
    'perturber.local.of="gradient"': _ROUNDS,
    "perturber.local.loss": _ROUNDS,
    "perturber.local.clip": _ROUNDS,
}


def refuse_old(word: object, names: Mapping[str, str], what: str, *, cure: str = "") -> None:
    """Raise ``BadInput`` if ``word`` is an old name in ``names`` of ``what``; ``cure`` says what to do."""
    new = names.get(word) if isinstance(word, str) else None
    if new is not None:
        raise BadInput(f'{what} "{word}" is called "{new}" since 0.2{cure}.')
