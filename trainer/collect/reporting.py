"""The report of a bundle: which of its outputs is one, and what it is worth, by its signed integers."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Output, Spending
from edgeveil.edge_runtime.manifest.promises.spending import repeats_paid
from edgeveil.trainer.collect import decoders

COIN = 2**62  # a coin is true with probability numerator / COIN
_BY_TABLE = {"duchi-linf": decoders.duchi_linf, "duchi-l2": decoders.duchi_l2, "laplace": decoders.laplace}


class Reporting(NamedTuple):
    """``op``: the mechanism. ``categories``: its values are shares, with the names of the categories where known."""

    output: Output
    op: str
    decoder: decoders.Decoder
    categories: bool
    names: tuple[str, ...]
    spending: Spending
    held: bool  # whether a device sends of one answer again and again


def reporting(bundle: Bundle, name: str | None = None) -> Reporting:
    """How to read the reports of ``bundle``, of its output ``name``. Raises ``BadInput`` where there are none."""
    manifest = bundle.manifest
    if manifest.spending is None:
        raise BadInput(
            f"A bundle that promises how much one release tells was expected; {manifest.name} has no spending. Train a "
            "recipe of kind local, or one with perturber.epsilon."
        )
    made = {stage["output"]: stage for stage in manifest.document["stages"] if "output" in stage}
    found = {output.name: (output, stage) for output in manifest.outputs if (stage := _origin(output.tensor, made))}
    if not found:
        raise BadInput(f"No output of {manifest.name} is a report: a frame with cut noise has no unbiased mean.")
    if (name is None and len(found) > 1) or (name is not None and name not in found):
        raise BadInput(f"One report was expected: name it with --output, one of {', '.join(found)}.")
    output, stage = found[name or next(iter(found))]
    op = stage.get("op", "channel")
    decoder = _decoder(bundle, output, stage, made)
    classes = tuple(manifest.perturber.target_classes)
    categories = op not in (*_BY_TABLE, "hybrid")
    names = classes if categories and len(classes) == decoder.width else ()
    return Reporting(output, op, decoder, categories, names, manifest.spending, repeats_paid(manifest))


def _origin(tensor: str, made: Mapping[str, Any]) -> Any:
    """The stage whose report a value is, also where it is held or privatised again; None where it is none."""
    stage = made.get(tensor, {})
    while stage.get("stage") == "hold" and stage["op"] in ("first", "keep"):
        stage = made[stage["input"]]
    is_report = stage.get("stage") == "mechanism" or stage.get("distribution") == "channel"
    return stage if is_report else None


def _decoder(bundle: Bundle, output: Output, stage: Any, made: Mapping[str, Any]) -> decoders.Decoder:
    op = stage.get("op", "channel")
    if op == "channel":
        try:
            return decoders.channel(_table(bundle, stage["table"]))
        except np.linalg.LinAlgError:
            raise BadInput(
                "No histogram can be told from these reports: their channel maps two categories alike."
            ) from None
    noise = [made[name] for name in stage["noise"]]
    if op in ("oue", "rappor", "rappor-again"):
        return decoders.unary(output.shape[0], *_law_of_bits(stage, made))
    if op == "hrr":
        return decoders.hadamard(noise[0]["bound"], noise[1]["numerator"] / COIN)
    if output.decoder is None:
        raise BadInput(f"A table that decodes the reports of {op} was expected; the output {output.name} names none.")
    table = _table(bundle, output.decoder)
    if op == "hybrid":
        positions = sum(draw["bound"] for draw in noise[5:])
        return decoders.hybrid(table, chosen=noise[0]["shape"][0], positions=positions)
    return _BY_TABLE[op](table)


def _law_of_bits(stage: Any, made: Mapping[str, Any]) -> tuple[float, float]:
    """The probabilities of a 1 at the category's own place and at another one."""
    first, second = (made[name]["numerator"] / COIN for name in stage["noise"])
    if stage["op"] != "rappor-again":
        return first, second
    p, q = _law_of_bits(_origin(stage["input"], made), made)
    return p * first + (1 - p) * second, q * first + (1 - q) * second


def _table(bundle: Bundle, name: str) -> np.ndarray:
    return np.load(io.BytesIO(bundle.members[bundle.manifest.tables[name].file]), allow_pickle=False)
