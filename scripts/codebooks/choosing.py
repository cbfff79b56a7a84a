"""Settings of a codebook compared on validation rows of the training slices; the test slice has no part in it.

Each fold holds other rows out of the first two slices, a fifth of each: trunk, codes and donors know nothing of them.
Codes are counted there (codebook_summary), so a setting costs the seconds of learning its codes, and settings
that differ in nothing that the trunk depends on share a trunk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from edgeveil.trainer.datasets import slicing
from edgeveil.trainer.datasets.base import Dataset, Slices
from edgeveil.trainer.perturbers.codebook import Codebook, fit
from edgeveil.trainer.recipe.schema import Recipe
from scripts.codebooks.codebook_summary import measure

SHARE = 0.2  # of each training slice, as runs hold out
OF_CODES = {  # settings that the trunk does not depend on
    *("codes", "price", "evenness", "steps", "synthesis", "fewest_subjects", "donors", "public_data")
}


def fold(dataset: Dataset, number: int) -> Dataset:
    """The training rows alone: what is fitted as the first two slices, and what fold ``number`` holds out as "test"."""
    first, second = dataset.part("classifiers"), dataset.part("perturber")
    (fit1, held1), (fit2, held2) = (slicing.hold_out(part, share=SHARE, seed=number) for part in (first, second))
    held = np.concatenate([first.index[held1], second.index[held2]])
    return replace(dataset, slices=Slices(first.index[fit1], second.index[fit2], held))


def compare(
    dataset: Dataset,
    recipe: Recipe,
    settings: Sequence[Codebook],
    *,
    fold_number: int,
    strata: np.ndarray | None = None,
    done: Callable[[int, Mapping[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """Figures of every setting on one fold, in their order: what ``measure`` says of the rows held out.

    ``done`` is called with the number of each setting and its figures as they come.
    """
    import keras

    folded = fold(dataset, fold_number)
    priced = folded.as_priced()
    trunks: dict[str, fit.Prepared] = {}
    all_figures = []
    for number, section in enumerate(settings):
        key = section.model_dump_json(exclude=OF_CODES)
        keras.utils.set_random_seed(fold_number)
        rng = np.random.default_rng([recipe.seed, fold_number])
        if key not in trunks:
            trunks[key] = fit.prepare(priced, priced.part("classifiers"), section, rng, recipe.budget)
        fitted = fit.finish(trunks[key], priced, priced.part("perturber"), section, rng=rng)
        before = {"name": "sent", "kind": "code", "tensor": "code", "shape": [], "dtype": "int64"}
        figures = measure(
            folded,
            replace(fitted, outputs=(*fitted.outputs, before)).perturb,
            codes=len(dataset.y_names) * section.codes,
            channel=fitted.tables.get("channel"),
            strata=strata,
            tried=len(settings),
        )
        all_figures.append(figures)
        if done is not None:
            done(number, figures)
    return all_figures
