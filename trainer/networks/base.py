"""What a network that a recipe names is, and which takes which samples."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import InputSpec
from edgeveil.trainer.networks import own
from edgeveil.trainer.recipe.networks import NETWORKS, networks

PLURALS = {"vector": "vectors", "series": "series", "image": "images"}


class Network:
    """A network that a recipe can ask for by one of ``names``; its facts are literals."""

    names: ClassVar[tuple[str, ...]]
    role: ClassVar[Literal["classifier", "generator"]]
    of: ClassVar[tuple[Literal["vector", "series", "image"], ...]]  # samples that it takes
    tried: ClassVar[int | None] = None  # its turn in the trial of `recipe new`; None: it has none
    another: ClassVar[str] = "normed-cnn"  # classifier: the one to take where it does not read y

    @classmethod
    def build(cls, spec: InputSpec, *, settings: Any, classes: int = 0, noise: int = 0) -> Any:
        """An untrained Keras model for samples of ``spec`` in the unit cube. Raises ``BadInput``.

        A classifier gives logits (n, classes); ``settings`` are its first width, or None. A generator gives samples;
        ``settings`` are the ``[perturber.generator]``, and ``noise`` above 0 is the length of a second input.
        """
        raise NotImplementedError


def network(name: str, spec: InputSpec) -> type[Network] | own.Own:
    """The network of a name or of a user's file, for samples of ``spec``. Raises ``BadInput`` where they do not fit."""
    mine = own.of_file(name, spec.kind)
    if mine is not None:
        return mine
    chosen: type[Network] = NETWORKS[name].load()
    if not isinstance(chosen, type):
        return own.Own(name, chosen, spec.kind)
    if spec.kind in chosen.of:
        return chosen
    takes: dict[tuple[str, ...], list[str]] = {}  # names by the plurals of samples, those of the same names together
    for kind, plural in PLURALS.items():
        fit = tuple(name for name in networks(chosen.role) if kind in NETWORKS[name].facts["of"])
        takes.setdefault(fit, []).append(plural)
    *others, last = (f"{' and '.join(sorted(plurals))} {_either(fit)}" for fit, plurals in takes.items())
    first = f"{', '.join(others)}, {last}".replace(f"{PLURALS['vector']} ", f"{PLURALS['vector']} take ", 1)
    raise BadInput(f'The data are {spec.plural} of shape {spec.shape} and the {chosen.role} is "{name}": {first}.')


def _either(names: tuple[str, ...]) -> str:
    quoted = [f'"{name}"' for name in names]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]] if quoted[1:] else quoted)
