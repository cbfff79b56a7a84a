"""Channels designed for a Pufferfish bound next to codebooks with a price alone: what they keep, and what is counted.

MNIST (parity; every digit hidden), WiFi (storey; the building hidden) and faces (the light; the person hidden), else as
their recipes have it. A trunk is trained once a seed. Each point counts, on the two slices that no training saw, the
largest log ratio of P(code | y, z) over z with its upper end and the delta of all other codes, and what of T within y
the code sent keeps on the test slice. Records docs/results/channels.json.

    EDGEVEIL_DATA=... python -m scripts.measure.channels
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer import datasets
from edgeveil.trainer.attacks import rows
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.ext.sweep.axes import with_settings
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.measures import intervals
from edgeveil.trainer.measures.pufferfish import counted
from edgeveil.trainer.perturbers.codebook import channel, fit, funnel
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from scripts import record

RESULT = Path("docs/results/channels.json")


class Case(NamedTuple):
    """A recipe's changes, (codes, price) of codebooks without a channel, and those that have one for each epsilon."""

    keys: dict[str, Any]
    prices: tuple[tuple[int, float], ...]
    designed: tuple[tuple[int, float], ...]
    epsilons: tuple[float, ...]


STOREY = {"data.target": "storey", "data.sensitive": "building", "prior": {"kind": "uniform"}}
CASES = {
    "mnist": Case({}, ((32, 9.0), (8, 9.0), (4, 9.0)), ((32, 9.0), (32, 2.0)), (0.5, 0.7, 1.0, 1.5)),
    "wifi": Case(STOREY, ((4, 1.0), (2, 1.0), (2, 8.0)), ((2, 1.0),), (0.7, 1.0, 1.5, 2.0)),
    "faces": Case({}, ((16, 8.0),), ((2, 8.0),), (2.0,)),
}


class World(NamedTuple):
    """A data set of what is priced, and of the rows of all slices T (n, d), y, and places of training, unseen, test."""

    dataset: Dataset
    kept: np.ndarray
    y: np.ndarray
    old: slice
    unseen: slice
    test: slice


def measured(world: World, label: np.ndarray, code: np.ndarray, q: np.ndarray, seed: int) -> dict[str, Any]:
    """The figures of one point for the encoder's label and code (n,) of all rows, and its channel."""
    dataset, sent = world.dataset, channel.send(code, q, np.random.default_rng([seed, 3]))
    z = dataset.z[dataset.slices.rows()]
    weight = np.eye(len(q))[code[world.old]] @ q
    means = (weight.T @ world.kept[world.old]) / np.maximum(weight.sum(axis=0), 1e-9)[:, None]
    of_label = funnel.group_means(world.kept[world.old], label[world.old], len(dataset.y_names))
    test = world.test
    lost = ((world.kept[test] - means[sent[test]]) ** 2).sum()
    whole = ((world.kept[test] - of_label[label[test]]) ** 2).sum()
    found = counted(
        *(world.y[world.unseen], sent[world.unseen], z[world.unseen]),
        shape=(len(dataset.y_names), len(q), len(dataset.z_names)),
        theta=dataset.theta,
        label=np.arange(len(q)) * len(dataset.y_names) // len(q),
        rng=np.random.default_rng(0),
    )
    right = intervals.rate(label[test] == world.y[test])._asdict()
    loss = None if found.codes is None or found.codes.delta >= 1 else found.codes._asdict()
    return {
        **{"y": right, "kept": float(1 - lost / whole), "sent": int((np.bincount(sent) > 0).sum())},
        **{"loss": loss, "fewest": found.fewest, "supports": [one._asdict() for one in found.supports]},
    }


def points(name: str, seed: int) -> Iterator[dict[str, Any]]:
    """All points of one seed."""
    import keras

    case = CASES[name]
    recipe = with_settings(Recipe.find(f"{name}-codebook"), {**case.keys, "seed": seed})
    dataset, section = datasets.load(recipe).as_priced(), recipe.perturber
    keras.utils.set_random_seed(seed)
    first, second = (fit_and_validation(dataset, part)[0] for part in ("classifiers", "perturber"))
    prepared = fit.prepare(dataset, first, section, np.random.default_rng([seed, 1]), recipe.budget)
    every, places = dataset.slices.rows(), rows.places(dataset)
    u, unseen = dataset.unit(dataset.x[every]), slice(places.fresh.start, places.test.stop)
    world = World(dataset, prepared.kept(u, every), dataset.y[every], places.old, unseen, places.test)

    def coded(**changes: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        changed = section.model_copy(update=changes)
        fit.check(changed, dataset)
        fitted: FittedPerturber = fit.finish(prepared, dataset, second, changed, rng=np.random.default_rng([seed, 2]))
        return changed, *funnel.global_codes(*predict(fitted.models["encoder"], u))

    for codes, price in case.prices:
        facts = {"data": name, "seed": seed, "codes": codes, "price": price, "epsilon": None}
        changed, label, code = coded(codes=codes, price=price)
        yield {**facts, **measured(world, label, code, np.eye(len(dataset.y_names) * codes), seed)}
    for codes, price in case.designed:
        facts = {"data": name, "seed": seed, "codes": codes, "price": price}
        try:
            changed, label, code = coded(codes=codes, price=price, pufferfish=max(case.epsilons))
        except (BadInput, LimitNotMet) as refused:
            yield {**facts, "epsilon": max(case.epsilons), "refused": str(refused)}
            continue
        copied = section.copies > 1 and section.method == "funnel"
        _, apart = fit.split(first, second, copied=copied, seed=dataset.seed)
        at = np.argsort(every)[np.searchsorted(np.sort(every), apart.index)]
        for epsilon in case.epsilons:
            asked = changed.model_copy(update={"pufferfish": epsilon})
            try:
                made = fit.design(dataset, apart, world.kept[at], code[at], asked, 0.05)
            except LimitNotMet as refused:
                yield {**facts, "epsilon": epsilon, "refused": str(refused)}
                continue
            yield {**facts, "epsilon": epsilon, **measured(world, label, code, made.q, seed)}


def main() -> None:
    """Measure what --runs does not have yet, and record all."""
    script = record.Script(__file__, __doc__, out=RESULT)
    script.add_argument("--runs", type=Path, default=Path("runs/channels"), help="what was measured of each seed")
    script.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    script.add_argument("--data", nargs="+", default=list(CASES), choices=list(CASES))
    options = script.parse_args()
    load_tensorflow()
    found = []
    for name in options.data:
        for seed in options.seeds:
            found += record.kept(options.runs / f"{name}-{seed}.json", lambda about=(name, seed): list(points(*about)))
            record.write(options.out, script.made_by(options), {"seeds": options.seeds, "rows": found, **record.here()})


if __name__ == "__main__":
    record.run(main)
