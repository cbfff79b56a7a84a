"""Many releases of one track: how fast do codes add up?

A *track* is T releases that an adversary knows to belong together. Three attackers use codes and y. The sum of
log-posteriors takes releases as independent given (y, z). A forest on histograms of codes and of their transitions also
sees that a person's codes repeat. A forest on the code at each time also sees their order, as does the network of
``track_network``. Tracks are of equal length, because length would be a cue of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse, special

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.families.code_counts import WEIGHT, shrunk
from edgeveil.trainer.attacks.families.estimator import forest, predicted
from edgeveil.trainer.measures.attack_metrics import FLOOR, counted_prior
from edgeveil.trainer.measures.intervals import count

LENGTHS = (1, 4, 16, 64, 256)  # releases of one track that are asked about
MOST_CODES_IN_PAIRS = 64
SPARSE = 0.02  # share of values that are not 0, below which a forest gets the others alone


@dataclass(frozen=True)
class Tracks:
    """Tracks of equal length: code (n, T), 0 .. ``codes`` - 1, with y and z (n,) of the whole track."""

    code: np.ndarray
    y: np.ndarray
    z: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: np.ndarray | slice) -> Tracks:
        """Some of the tracks."""
        return Tracks(self.code[rows], self.y[rows], self.z[rows])


def cut(code: np.ndarray, y: np.ndarray, z: np.ndarray, *, track: np.ndarray, length: int) -> Tracks:
    """Consecutive releases of one track in pieces of ``length``; the rest of a track is dropped.

    Rows (n,) are in order of time within a track (``track`` (n,) numbers them). A piece ends where y or z changes, so
    that it has one y and one z. Raises ``BadInput`` where no piece is long enough.
    """
    order = np.argsort(track, kind="stable")
    keys = np.stack([track[order], y[order], z[order]])
    starts = np.flatnonzero(np.concatenate([[True], (np.diff(keys) != 0).any(axis=0)]))
    ends = np.append(starts[1:], len(order))
    pieces = [
        order[at : at + length] for a, b in zip(starts, ends, strict=True) for at in range(a, b - length + 1, length)
    ]
    if not pieces:
        raise BadInput(
            f"No track has {length} releases in a row with one y and one z: give longer tracks, or a smaller T."
        )
    rows = np.stack(pieces)
    return Tracks(code[rows], y[rows[:, 0]], z[rows[:, 0]])


def pooled(code: np.ndarray, y: np.ndarray, z: np.ndarray, *, length: int, rng: np.random.Generator) -> Tracks:
    """Tracks of ``length`` random rows each with the same (y, z): different samples of one source, as if linked.

    Raises ``BadInput`` where no (y, z) has so many rows.
    """
    cell = y * (int(z.max()) + 1) + z
    if np.bincount(cell).max() < length:
        raise BadInput(f"a slice has no {length} samples of one y and one z: give more")
    order = rng.permutation(len(y))
    return cut(code[order], y[order], z[order], track=cell[order], length=length)


def log_posteriors(fit: Tracks, test: Tracks, *, classes: tuple[int, int], codes: int) -> np.ndarray:
    """P(z | y, all codes of the track) by summing log P(code | y, z) over the track: (tracks, classes of z)."""
    t = fit.code.shape[1]
    prior = counted_prior(fit.y, fit.z, classes)
    shape = classes[0], codes, classes[1]
    counts = count(np.repeat(fit.y, t), fit.code.reshape(-1), np.repeat(fit.z, t), shape=shape)
    return summed_log_ratios(shrunk(counts, prior, WEIGHT), prior, test)


def summed_log_ratios(table: np.ndarray, prior: np.ndarray, tracks: Tracks) -> np.ndarray:
    """P(z | y, all codes) (tracks, classes of z), of ``table`` P(z | y, code) and ``prior`` P(z|y)."""
    ratio = np.log(table) - np.log(prior)[:, None, :]
    scores = np.log(prior)[tracks.y] + ratio[tracks.y[:, None], tracks.code].sum(axis=1)
    return np.asarray(special.softmax(scores, axis=1))


def added_up(p: np.ndarray, prior: np.ndarray, tracks: Tracks) -> np.ndarray:
    """P(z | y, all releases of a track) (tracks, classes of z) where releases are independent given (y, z).

    ``p`` (n, classes of z) is P(z | y, x') of each row, whose number ``tracks.code`` holds; ``prior`` is P(z|y).
    """
    base = np.log(np.maximum(prior, FLOOR))[tracks.y]
    ratio = np.log(np.maximum(p[tracks.code], FLOOR)) - base[:, None]
    return np.asarray(special.softmax(base + ratio.sum(axis=1), axis=1))


def histogram_forest(
    fit: Tracks, test: Tracks, *, classes: tuple[int, int], codes: int, trees: int = 300, seed: int = 0
) -> np.ndarray:
    """P(z | y, codes) by a forest on the histogram of a track's codes, its transitions, changes, longest run and y."""
    views = [histograms(tracks, classes=classes[0], codes=codes) for tracks in (fit, test)]
    if codes <= MOST_CODES_IN_PAIRS:
        pairs = [transitions(tracks, codes=codes) for tracks in (fit, test)]
        common = (pairs[0] > 0).sum(axis=0) >= 2
        views = [np.concatenate([view, pair[:, common]], axis=1) for view, pair in zip(views, pairs, strict=True)]
    if np.count_nonzero(views[0]) < SPARSE * views[0].size:  # the same trees, in a quarter of the time
        views = [sparse.csc_matrix(views[0]), sparse.csr_matrix(views[1])]
    return predicted(forest(views[0], fit.z, trees, seed, jobs=1), views[1], classes[1])


def timed_forest(
    fit: Tracks, test: Tracks, *, classes: tuple[int, int], codes: int, trees: int = 300, seed: int = 0
) -> np.ndarray:
    """P(z | y, codes) by a forest on the code at each time of the track, and y."""
    views = [timed(tracks, classes=classes[0], codes=codes).reshape(len(tracks), -1) for tracks in (fit, test)]
    return predicted(forest(views[0], fit.z, trees, seed, jobs=1), views[1], classes[1])


def timed(tracks: Tracks, *, classes: int, codes: int) -> np.ndarray:
    """The code at each time, and y, one-hot: float32 (n, T, codes + classes)."""
    y = np.repeat(np.eye(classes, dtype=np.float32)[tracks.y][:, None], tracks.code.shape[1], axis=1)
    return np.concatenate([np.eye(codes, dtype=np.float32)[tracks.code], y], axis=2)


def histograms(tracks: Tracks, *, classes: int, codes: int) -> np.ndarray:
    """Features float32 (n, codes + 2 + classes): code counts, changes, longest run, y one-hot."""
    n, t = tracks.code.shape
    counts = np.zeros((n, codes), np.float32)
    np.add.at(counts, (np.repeat(np.arange(n), t), tracks.code.reshape(-1)), 1.0)
    same = tracks.code[:, 1:] == tracks.code[:, :-1]
    run, longest = np.ones(n), np.ones(n)
    for step in range(t - 1):
        run = np.where(same[:, step], run + 1, 1)
        longest = np.maximum(longest, run)
    shape = np.stack([(~same).sum(axis=1), longest], axis=1).astype(np.float32)
    return np.concatenate([counts, shape, np.eye(classes, dtype=np.float32)[tracks.y]], axis=1)


def transitions(tracks: Tracks, *, codes: int) -> np.ndarray:
    """How often each code follows each other one in a track: float32 (n, codes * codes)."""
    n, t = tracks.code.shape
    counts = np.zeros((n, codes * codes), np.float32)
    pair = tracks.code[:, :-1] * codes + tracks.code[:, 1:]
    np.add.at(counts, (np.repeat(np.arange(n), t - 1), pair.reshape(-1)), 1.0)
    return counts


def repeated(joint: np.ndarray, q: np.ndarray, *, releases: int, draws: int, rng: np.random.Generator) -> float:
    """Accuracy of the Bayes attacker who knows the channel after ``releases`` of the *same* x, by Monte Carlo.

    ``joint`` (Y, R, Z) is P(y, c, z) or its counts, ``q`` (R, C) the channel. P(z | y, c'_1 .. c'_T) sums over the one
    c that all releases share, so a channel that repeats itself is measured exactly. Where c' = c, more releases tell no
    more than one.
    """
    p = joint / joint.sum()
    q = q / q.sum(axis=1, keepdims=True)
    y, c, z = np.unravel_index(rng.choice(p.size, draws, p=p.ravel()), p.shape)
    sent = (q[c].cumsum(axis=1)[:, None, :] <= rng.random((draws, releases))[:, :, None]).sum(axis=2)
    with np.errstate(divide="ignore"):
        log_q = np.log(np.minimum(q, 1.0))
    likelihood = log_q[:, np.minimum(sent, q.shape[1] - 1)].sum(axis=2).T  # (draws, R)
    weight = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    posterior = np.einsum("nr,nrz->nz", weight, p[y])
    return float((posterior.argmax(axis=1) == z).mean())
