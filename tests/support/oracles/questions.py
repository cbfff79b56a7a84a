"""Answers of other people's implementations; run by ``oracles.py`` in an environment in which nothing of EdgeVeil is.

A folder comes with ``question.json`` ("ask", and its settings) and ``arrays.npz``; one JSON document goes to stdout.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Answer = dict[str, Any]


def vector(_: dict[str, np.ndarray], *, epsilon: float, norm: float, draws: int, seed: int) -> Answer:
    """What diffprivlib's Vector mechanism adds to a logistic risk of one row and one dimension, regularization 1: its
    further regularization, and the mean length of its noise. The risk is 0, so that only what is added is left."""
    from diffprivlib.mechanisms import Vector

    lengths, more = [], 0.0
    for draw in range(draws):
        made = Vector(
            epsilon=epsilon,
            function_sensitivity=0.25,
            data_sensitivity=norm,
            dimension=1,
            alpha=1.0,
            n=1,
            random_state=seed + draw,
        )
        noisy = made.randomise(lambda _w: (0.0, np.zeros(1)))
        at_0, at_1 = (float(noisy(np.array([w]))[1][0]) for w in (0.0, 1.0))
        lengths.append(abs(at_0))
        more = at_1 - at_0
    return {"more": more, "mean_length": float(np.mean(lengths))}


def logistic(arrays: dict[str, np.ndarray], *, settings: list[list[float]], draws: int, seed: int) -> Answer:
    """Weights of diffprivlib's LogisticRegression on ``rows`` (n, d) of norm 1 and ``sign`` (n,), for each (epsilon,
    regularization) of ``settings`` and draw."""
    from diffprivlib.models import LogisticRegression

    rows, sign, found = arrays["rows"], arrays["sign"], []
    for epsilon, regularization in settings:
        weights = []
        for draw in range(draws):
            model = LogisticRegression(
                epsilon=epsilon,
                data_norm=1.0,
                C=1 / (len(rows) * regularization),
                fit_intercept=False,
                tol=1e-7,
                max_iter=2000,
                random_state=seed + draw,
            )
            weights.append(model.fit(rows, sign).coef_[0].tolist())
        found.append(weights)
    return {"weights": found}


def categories(arrays: dict[str, np.ndarray], *, mechanism: str, k: int, epsilon: float) -> Answer:
    """multi-freq-ldpy's reports of ``values`` (n,), its estimate of them, and that of ``reports``, which ours made."""
    if mechanism == "k-rr":
        from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client

        mine = [int(GRR_Client(int(value), k, epsilon)) for value in arrays["values"]]
        theirs = GRR_Aggregator_MI(arrays["reports"].astype(int), k, epsilon)
        return {"reports": mine, "shares": list(GRR_Aggregator_MI(mine, k, epsilon)), "of_ours": list(theirs)}
    from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client

    bits = [UE_Client(int(value), k, epsilon, True) for value in arrays["values"]]
    theirs = UE_Aggregator_MI(list(arrays["reports"].astype(float)), epsilon, True)
    shares = UE_Aggregator_MI(bits, epsilon, True)
    return {"reports": [[int(bit) for bit in one] for one in bits], "shares": list(shares), "of_ours": list(theirs)}


def table(_: dict[str, np.ndarray], *, path: str, quasi: list[str], sensitive: str) -> Answer:
    """What pycanon counts in a published table."""
    import pandas
    from pycanon import anonymity

    found = pandas.read_csv(path, dtype=str)
    k = anonymity.k_anonymity(found, quasi)
    return {"k": int(k), "l": int(anonymity.l_diversity(found, quasi, [sensitive])), "rows": len(found)}


ASKED: dict[str, Callable[..., Answer]] = {
    "vector": vector,
    "logistic": logistic,
    "categories": categories,
    "table": table,
}


def answer(folder: Path) -> None:
    """Answer the question in a folder."""
    warnings.simplefilter("ignore")
    question = json.loads((folder / "question.json").read_text())
    with np.load(folder / "arrays.npz", allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    print(json.dumps(ASKED[question.pop("ask")](arrays, **question), default=float))
