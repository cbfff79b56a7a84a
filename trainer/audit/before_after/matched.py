"""Is row i after made of row i before? Permutation tests, and the offset of two films.

Two statistics, each against 999 random orders of the rows after: the mean inner product of standardised rows (where
both have one shape; the matched filter, which finds a sample under much noise), and the distance covariance (Székely,
Rizzo and Bakirov 2007), which needs no common shape. A mechanism that destroys everything looks like rows in another
order: data alone cannot tell the two apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput

SHUFFLES = 999
MOST_ROWS = 1000  # for inner products
MOST_FOR_DISTANCES = 400
LEVEL = 0.005
MOST_OFFSET = 30  # frames
PIECES = 3  # of a film: its begin, its middle and its end drift apart where frames are lost on the way
CLEAR = 5.0  # standard deviations over the other offsets


class Match(NamedTuple):
    """``p`` of the hypothesis that rows are in unrelated orders (None where it cannot be tested), and a sentence."""

    p: float | None
    matched: bool | None
    sentence: str


def match(before: np.ndarray, after: np.ndarray, *, seed: int) -> Match:
    """Test rows (n, ...) before and after on a random choice of them."""
    rng = np.random.default_rng([seed, 11])
    rows = rng.permutation(len(before))[:MOST_ROWS]
    a, b = (x[rows].reshape(len(rows), -1).astype(np.float64) for x in (before, after))
    if not b.std(axis=0).any():
        return Match(None, None, "All rows after are the same, so their order cannot be tested.")
    found = [_p(_centred_distances(a), _centred_distances(b), rng)]
    if before.shape[1:] == after.shape[1:]:
        found.append(_p_of_products(_standard(a) @ _standard(b).T, rng))
    p = min(1.0, len(found) * min(found))
    what = f"row i after depends on row i before (p {'<=' if p <= 2 / SHUFFLES else '='} {p:.3g}"
    if p <= LEVEL:
        return Match(p, True, f"Rows seem to be matched: {what}, {len(rows):,} rows, permutation test).")
    return Match(
        p,
        False,
        f"Rows seem not to be matched: row i after does not depend on row i before (p = {p:.3g}, {len(rows):,} rows, "
        "permutation test). They are in another order, or the mechanism leaves nothing of a sample.",
    )


def _standard(x: np.ndarray) -> np.ndarray:
    spread = x.std(axis=0)
    return (x - x.mean(axis=0)) / np.where(spread > 1e-9, spread, np.inf)


def _p_of_products(products: np.ndarray, rng: np.random.Generator) -> float:
    """Of the trace of ``products`` (n, n) against its columns in random orders."""
    rows = np.arange(len(products))
    null = np.array([products[rows, rng.permutation(len(rows))].sum() for _ in range(SHUFFLES)])
    return float((1 + (null >= np.trace(products) - 1e-9).sum()) / (1 + SHUFFLES))


def _centred_distances(x: np.ndarray) -> np.ndarray:
    x = x[:MOST_FOR_DISTANCES]
    squares = (x**2).sum(axis=1)
    d = np.sqrt(np.maximum(squares[:, None] + squares[None] - 2 * x @ x.T, 0.0))
    return d - d.mean(axis=0) - d.mean(axis=1, keepdims=True) + d.mean()


def _p(a: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> float:
    """Of the distance covariance of doubly centred distances (n, n)."""
    observed, null = float((a * b).sum()), []
    for _ in range(SHUFFLES):
        order = rng.permutation(len(b))
        null.append(float((a * b[np.ix_(order, order)]).sum()))
    return float((1 + (np.array(null) >= observed - 1e-9 * abs(observed)).sum()) / (1 + SHUFFLES))


def offset(before: np.ndarray, after: np.ndarray, *, most: int = MOST_OFFSET) -> int:
    """How many frames after its place in ``before`` a frame of the other film comes; 0 where no offset stands out.

    Both are (frames, ...) in order, of one shape. Estimated in each third of the film by correlation of frames whose
    mean over the film is subtracted. Raises ``BadInput`` where the thirds disagree: the films drift apart.
    """
    n = min(len(before), len(after))
    bounds = np.linspace(0, n, PIECES + 1).astype(int)
    found = [
        one
        for start, stop in zip(bounds, bounds[1:], strict=False)
        if (one := _offset(before, after, start, stop, most)) is not None
    ]
    if len(set(found)) > 1:
        raise BadInput(
            f"The films drift apart: frames after come {', then '.join(map(str, found))} frames late in its thirds. "
            "Write the film again at a constant frame rate, without dropping frames (ffmpeg -fps_mode passthrough)."
        )
    return found[0] if found else 0


def _offset(before: np.ndarray, after: np.ndarray, start: int, stop: int, most: int) -> int | None:
    """The offset in frames [start, stop), None where none stands out."""
    most = min(most, (stop - start) // 4)
    if most < 1:
        return None
    a, b = (_frames(x) for x in (before, after))
    scores = {}
    for k in range(-most, most + 1):
        here = np.arange(max(start, -k), min(stop, len(b) - k, len(a)))
        if len(here) >= most:
            scores[k] = float((a[here] * b[here + k]).sum(axis=1).mean())
    best = max(scores, key=lambda k: scores[k])
    # Neighbours of the best are high as well: films move slowly. Far offsets are the noise.
    far = [value for k, value in scores.items() if abs(k - best) > most // 2]
    if len(far) < 3 or scores[best] < np.mean(far) + CLEAR * np.std(far):
        return None
    return best


def _frames(x: np.ndarray) -> np.ndarray:
    """Frames as rows of unit length, without the mean of the film: (frames, values)."""
    flat = x.reshape(len(x), -1).astype(np.float32)
    flat = flat - flat.mean(axis=0)
    length = np.linalg.norm(flat, axis=1, keepdims=True)
    return flat / np.where(length > 0, length, 1.0)
