"""Streams of digits against an attacker who knows the order: what each way to hold codes leaks, its bound and its cost.

A frame's digit stays with probability ``stays``, else another one is drawn; each frame is a fresh row of the test slice
of ``mnist-codebook``, whose codes are drawn for, held or passed through randomised response as the runtime does. The
attacker knows y of every frame and names z (less than five) of every frame and of the first one. It is a hidden Markov
model, smoothed over the whole track, with the true chances to stay and P(code | digit) counted on the attack slice
(shrunk to P(code | y), as much as serves on streams of other attack rows); at
the longest tracks a forest on histograms and transitions, learned on streams of attack rows, names z of the first
frame. What counts is how often it is right beyond the same model that sees y alone, by the difference of each track.
A bound is that difference where one is claimed: of one release by the counted Pufferfish over all priors (confidence
95 %, shared with the recipe's ``tried``), of k-RR by optimal composition. Records
docs/results/privacy/stream-bounds.json.

    EDGEVEIL_DATA=... python -m scripts.measure.stream_bounds
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from edgeveil.edge_runtime.stages.channel import Response, channel_of, same_of
from edgeveil.trainer.attacks import sequences
from edgeveil.trainer.attacks.sequences import Tracks
from edgeveil.trainer.audit.sections.retained import correlation
from edgeveil.trainer.audit.subject import perturb_with
from edgeveil.trainer.measures import intervals
from edgeveil.trainer.measures.composition import epsilon_of_all, most_right
from edgeveil.trainer.measures.per_code import moments
from edgeveil.trainer.measures.pufferfish import counted
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.train import train
from scripts import record

RESULT = Path("docs/results/privacy/stream-bounds.json")
RECIPE = "mnist-codebook"
STAYS = (0.9, 0.99, 0.999)
LENGTHS = (1, 16, 64, 256)
TO_LEARN = 3000  # tracks of attack rows, for what is learned on whole tracks
TO_CHOOSE = 2000  # tracks of attack rows, by which the counts are smoothed
WEIGHTS = (2.0, 30.0, 300.0, 1000.0, 3000.0, 10_000.0, 30_000.0)
FEW = 16  # frames that the counts are chosen by, where the first ones alone are drawn for
AT_ONCE = 2000
VOTES = 7
DELTA = 1e-6


class Way(NamedTuple):
    """``draws`` of a track, None: every frame; ``alpha`` of k-RR, None: codes as they are; ``votes``: a class is voted
    and a code drawn from it."""

    name: str
    draws: int | None
    alpha: float | None = None
    votes: int | None = None


WAYS = (
    Way("every frame", None),
    Way("first:4", 4),
    Way("first:1", 1),
    Way(f"track:{VOTES}", 1, votes=VOTES),
    Way("k-RR 4, every frame", None, 4.0),
    Way("k-RR 4, first:4", 4, 4.0),
    Way("k-RR 1, first:4", 4, 1.0),
    Way("k-RR 0.25, first:4", 4, 0.25),
)


class Rows(NamedTuple):
    """Rows that no training saw: digit, code, label (n,), ink of x, and of what is sent in its place."""

    digit: np.ndarray
    code: np.ndarray
    label: np.ndarray
    ink: np.ndarray


class World(NamedTuple):
    """Digits' y and z, the chance of each digit, codes of all classes, and the ink of each code's picture."""

    y: np.ndarray
    z: np.ndarray
    share: np.ndarray
    codes: int
    ink: np.ndarray


def released(seed: int, runs: Path) -> dict[str, Any]:
    """Train a seed; what was sent for its attack and test rows, as arrays of JSON."""
    recipe = Recipe.find(RECIPE).model_copy(update={"seed": seed})
    folder = runs / f"{RECIPE}-{seed}"
    finished = (folder / "run.json").is_file() and Run.open(folder).facts["state"] == "finished"
    run = Run.open(folder) if finished else train(recipe, folder, resume=(folder / "run.json").is_file())
    dataset = run.dataset()
    digit = dataset.known["digit"].values
    parts = {}
    for name in ("attack", "test"):
        part = dataset.part(name)
        out = perturb_with(run.perturber(), dataset, part.index).outputs
        before, after = moments(dataset.unit(part.x))[:, 0], moments(dataset.unit(out["frame"]))[:, 0]
        parts[name] = {
            "digit": digit[part.index].tolist(),
            "code": out["code"].tolist(),
            "label": out["label"].tolist(),
            "ink": before.tolist(),
            "sent_ink": after.tolist(),
            "y": part.y.tolist(),
            "z": part.z.tolist(),
        }
    return {"parts": parts, "tried": recipe.certificate.tried if recipe.certificate else 1}


def opened(found: dict[str, Any]) -> tuple[World, Rows, Rows]:
    """The world and both slices of what ``released`` found."""
    both = {name: {key: np.array(values) for key, values in part.items()} for name, part in found["parts"].items()}
    fit, test = both["attack"], both["test"]
    y, z = np.zeros(10, np.int64), np.zeros(10, np.int64)
    y[fit["digit"]], z[fit["digit"]] = fit["y"], fit["z"]
    codes = 2 * -(-(max(int(part["code"].max()) for part in both.values()) + 1) // 2)
    ink = np.zeros(codes)
    for part in both.values():
        ink[part["code"]] = part["sent_ink"]
    world = World(y, z, np.bincount(fit["digit"], minlength=10) / len(fit["digit"]), codes, ink)
    return world, *(Rows(part["digit"], part["code"], part["label"], part["ink"]) for part in (fit, test))


def streams(world: World, of: Rows, stays: float, tracks: int, rng: np.random.Generator) -> np.ndarray:
    """Rows (tracks, frames) of digits that stay with probability ``stays`` from frame to frame."""
    length = max(LENGTHS)
    drawn = rng.choice(10, (tracks, length), p=world.share)
    new = rng.random((tracks, length)) >= stays
    new[:, 0] = True
    digit = np.take_along_axis(drawn, np.maximum.accumulate(np.where(new, np.arange(length), 0), axis=1), axis=1)
    places = np.argsort(of.digit, kind="stable")
    begin = np.searchsorted(of.digit[places], np.arange(11))
    return places[begin[digit] + (rng.random(digit.shape) * np.diff(begin)[digit]).astype(np.int64)]


def channel(way: Way, world: World) -> np.ndarray:
    """P(code' | code) (codes, codes) of a frame that is drawn for."""
    if way.alpha is None:
        return np.eye(world.codes)
    table = channel_of(world.codes, way.alpha)
    return table / table.sum(axis=1, keepdims=True, dtype=np.float64)


def sent(
    way: Way, world: World, of: Rows, frames: np.ndarray, share: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The code (tracks, frames) that is sent. ``share`` (classes, codes) is P(code | class), of voted tracks."""
    if way.votes is not None:
        ones = of.label[frames[:, : way.votes]].sum(axis=1)
        label = (2 * ones > way.votes).astype(np.int64)
        return np.repeat(_drawn(share, label, rng)[:, None], frames.shape[1], axis=1)
    code = of.code[frames[:, : way.draws]]
    if way.alpha is not None:
        code = _drawn(channel(way, world), code.reshape(-1), rng).reshape(code.shape)
    last = np.repeat(code[:, -1:], frames.shape[1] - code.shape[1], axis=1)
    return np.concatenate([code, last], axis=1)


def _drawn(table: np.ndarray, row: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A code (n,) by each ``row`` (n,) of a channel (rows, codes)."""
    ends = table.cumsum(axis=1)[:, :-1]
    pieces = np.array_split(row, max(1, len(row) // 200_000))
    return np.concatenate([(ends[one] <= rng.random((len(one), 1))).sum(axis=1) for one in pieces])


def smoothed(world: World, stays: float, y: np.ndarray, seen: np.ndarray | None) -> np.ndarray:
    """P(z = 1 | all of a track) (tracks, T) from y (tracks, T) and P(what is sent | digit) ``seen`` (tracks, T', 10) of
    the first T' frames, or y alone."""
    n, length = y.shape
    move = stays * np.eye(10) + (1 - stays) * world.share
    likely = (world.y == y[:, :, None]).astype(np.float64)
    if seen is not None:
        likely[:, : seen.shape[1]] *= seen[:, :length]
    forward, one = np.empty((n, length, 10)), world.share * likely[:, 0]
    for t in range(length):
        one = one if t == 0 else (one @ move) * likely[:, t]
        one = one / np.maximum(one.sum(axis=1, keepdims=True), 1e-300)
        forward[:, t] = one
    back = np.ones((n, 10))
    answer = np.empty((n, length))
    for t in range(length - 1, -1, -1):
        both = forward[:, t] * back
        answer[:, t] = both[:, world.z == 1].sum(axis=1) / np.maximum(both.sum(axis=1), 1e-300)
        back = (likely[:, t] * back) @ move.T
        back = back / np.maximum(back.max(axis=1, keepdims=True), 1e-300)
    return answer


def emission(
    way: Way, world: World, fit: Rows, stays: float, share: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """P(code sent | digit) (codes, 10) of a frame that is drawn for, counted on attack rows.

    Counts of a digit are shrunk to those of its y, as much as names z of most frames on streams of their other half.
    """
    half = np.arange(len(fit.digit)) % 2 == 0
    parts = [Rows(*(values[rows] for values in fit)) for rows in (half, ~half)]
    frames = streams(world, parts[1], stays, TO_CHOOSE, rng)
    y, z = world.y[parts[1].digit[frames]], world.z[parts[1].digit[frames]]
    code = sent(way, world, parts[1], frames, share, rng)[:, : way.draws]
    length = max(LENGTHS) if way.draws is None else FEW
    counts = _counts(way, world, parts[0], stays, share, rng)
    rights = []
    for weight in WEIGHTS:
        law = channel(way, world).T @ _law(world, counts, weight)
        answers = in_parts(world, stays, y[:, :length], (law, code))
        rights.append(float(((answers > 0.5) == z[:, :length]).mean()))
    best = WEIGHTS[int(np.argmax(rights))]
    return channel(way, world).T @ _law(world, _counts(way, world, fit, stays, share, rng), best)


def _counts(way: Way, world: World, of: Rows, stays: float, share: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    counts = np.zeros((world.codes, 10))
    code, digit = of.code, of.digit
    if way.votes is not None:
        frames = streams(world, of, stays, 10 * TO_LEARN, rng)
        code, digit = sent(way, world, of, frames, share, rng)[:, 0], of.digit[frames[:, 0]]
    np.add.at(counts, (code, digit), 1.0)
    return counts


def _law(world: World, counts: np.ndarray, to_y: float) -> np.ndarray:
    """P(code | digit) with so many rows of P(code | y) more."""
    law = counts + 0.01 * counts.sum(axis=1, keepdims=True) / counts.sum() + 1e-9
    of_y = np.stack([law[:, world.y == y].sum(axis=1) for y in world.y], axis=1)
    law = law + to_y * of_y / of_y.sum(axis=0)
    return np.asarray(law / law.sum(axis=0))


class Bounded(NamedTuple):
    """The loss that is claimed of a track: (epsilon, delta) pairs of one release, or of answers of k-RR."""

    losses: tuple[tuple[float, float], ...] = ()
    epsilon: float = 0.0
    answers: int = 0
    same: float = 0.0

    def more(self, prior: np.ndarray) -> np.ndarray:
        """How much more often z is named than by its ``prior`` of z = 1 (n,), at most: (n,)."""
        both = np.stack([1 - prior, prior], axis=1)
        if self.answers:
            return most_right(self.epsilon, self.answers, both, same=self.same) - both.max(axis=1)
        least, most = both.min(axis=1), both.max(axis=1)
        odds = np.log(most) - np.log(np.maximum(least, 1e-300))
        delta = np.min([np.where(odds >= epsilon, delta, 1.0) for epsilon, delta in self.losses], axis=0)
        return least * delta


def claimed(way: Way, world: World, found: dict[str, Any], fit: Rows, test: Rows) -> Bounded | None:
    """What is claimed of a whole track; None where nothing is."""
    if way.draws is None or way.votes is not None:
        return None
    if way.alpha is not None:
        table = channel_of(world.codes, way.alpha)
        epsilon = float(np.nextafter(float(Response().epsilon({}, [], table.tolist())), np.inf))
        return Bounded(epsilon=epsilon, answers=way.draws, same=same_of(table))
    if way.draws > 1:
        return None
    y, z = (np.concatenate([of[one.digit] for one in (fit, test)]) for of in (world.y, world.z))
    theta = np.array([[world.share[(world.y == a) & (world.z == b)].sum() for b in (0, 1)] for a in (0, 1)])
    loss = counted(
        y, np.concatenate([fit.code, test.code]), z,
        shape=(2, world.codes, 2), theta=theta / theta.sum(axis=1, keepdims=True), tried=found["tried"],
        rng=np.random.default_rng(0),
    )  # fmt: skip
    return Bounded(tuple((one.epsilon, one.delta) for one in loss.supports))


def measured(seed: int, found: dict[str, Any], tracks: int, trees: int) -> dict[str, Any]:
    """All ways at all chances to stay, of one seed."""
    world, fit, test = opened(found)
    share = np.zeros((2, world.codes))
    np.add.at(share, (fit.label, fit.code), 1.0)
    share /= share.sum(axis=1, keepdims=True)
    document = {}
    for stays in STAYS:
        rng = np.random.default_rng([seed, int(1000 * stays)])
        frames, learned = (streams(world, of, stays, n, rng) for of, n in ((test, tracks), (fit, TO_LEARN)))
        y, z = world.y[test.digit[frames]], world.z[test.digit[frames]]
        alone = {length: in_parts(world, stays, y[:, :length], None) for length in LENGTHS}
        for way in WAYS:
            code = sent(way, world, test, frames, share, rng)
            law = emission(way, world, fit, stays, share, rng)
            bounded = claimed(way, world, found, fit, test)
            one = {}
            for length in LENGTHS:
                seen = (law, code[:, : length if way.draws is None else min(length, way.draws)])
                answers = in_parts(world, stays, y[:, :length], seen)
                one[str(length)] = compared(answers, alone[length], z[:, :length], bounded)
            if stays > min(STAYS):
                guesses = forest(way, world, (fit, learned), (code, y[:, 0], z[:, 0]), share, seed, trees)
                one["forest"] = beyond(guesses == z[:, 0], (alone[max(LENGTHS)][:, 0] > 0.5) == z[:, 0])
            one["costs"] = costs(way, world, test, frames, code)
            if bounded is not None and bounded.answers:
                both = epsilon_of_all(bounded.epsilon, bounded.answers, DELTA, same=bounded.same)
                one["epsilon"] = {"pure": bounded.answers * bounded.epsilon, "at_delta": both, "delta": DELTA}
            elif bounded is not None:
                one["pufferfish"] = [list(pair) for pair in bounded.losses]
            one["within"] = within(one)
            document.setdefault(str(stays), {})[way.name] = one
    return document


def in_parts(world: World, stays: float, y: np.ndarray, seen: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
    """``smoothed``, some tracks at a time; ``seen`` are P(code | digit) and the codes (tracks, T')."""
    return np.concatenate([
        smoothed(world, stays, y[at : at + AT_ONCE], None if seen is None else seen[0][seen[1][at : at + AT_ONCE]])
        for at in range(0, len(y), AT_ONCE)
    ])  # fmt: skip


def compared(answers: np.ndarray, alone: np.ndarray, z: np.ndarray, bounded: Bounded | None) -> dict[str, Any]:
    """How often z is named right of every frame and of the first, beyond y alone, and the bound on both."""
    right, known = (answers > 0.5) == z, (alone > 0.5) == z
    one = {"right": float(right.mean()), "y_alone": float(known.mean())}
    one |= {"every": beyond(right, known), "first": beyond(right[:, 0], known[:, 0])}
    if bounded is not None:
        more = bounded.more(alone.reshape(-1)).reshape(alone.shape)
        one |= {"bound_every": float(more.mean()), "bound_first": float(more[:, 0].mean())}
    return one


def beyond(right: np.ndarray, known: np.ndarray) -> dict[str, float]:
    """The mean difference of each track, with its interval, widened as one of two attackers."""
    each = right.astype(np.float64) - known
    found = intervals.mean(each if each.ndim == 1 else each.mean(axis=1))
    half = intervals.wider(2) * (found.high - found.estimate)
    return {"estimate": found.estimate, "low": found.estimate - half, "high": found.estimate + half}


def within(one: dict[str, Any]) -> bool | None:
    """Whether every upper end is below its bound; None where no bound is claimed."""
    lengths = [one[str(length)] for length in LENGTHS if "bound_every" in one[str(length)]]
    if not lengths:
        return None
    pairs = [(length[name]["high"], length[f"bound_{name}"]) for length in lengths for name in ("every", "first")]
    if "forest" in one:
        pairs.append((one["forest"]["high"], one[str(max(LENGTHS))]["bound_first"]))
    return all(high <= bound for high, bound in pairs)


def forest(
    way: Way,
    world: World,
    learned: tuple[Rows, np.ndarray],
    test: tuple[np.ndarray, np.ndarray, np.ndarray],
    share: np.ndarray,
    seed: int,
    trees: int,
) -> np.ndarray:
    """z of the first frame (tracks,) by a forest that learned on whole streams of attack rows."""
    of, frames = learned
    rng = np.random.default_rng([seed, 5])
    digit = of.digit[frames[:, 0]]
    fit = Tracks(sent(way, world, of, frames, share, rng), world.y[digit], world.z[digit])
    p = sequences.histogram_forest(fit, Tracks(*test), classes=(2, 2), codes=world.codes, trees=trees, seed=seed)
    return np.asarray(p.argmax(axis=1))


def costs(way: Way, world: World, of: Rows, frames: np.ndarray, code: np.ndarray) -> dict[str, float]:
    """What is left of use: y of a frame right, ink kept within y, and the mean error of the share of odd in a track."""
    y, half = world.y[of.digit[frames]], world.codes // 2
    label = code // half
    odd = label.mean(axis=1)
    if way.alpha is not None:
        law = channel(way, world)
        stay, come = law[0, :half].sum(), law[half, :half].sum()
        odd = np.clip((label[:, : way.draws].mean(axis=1) - come) / (stay - come), 0, 1)
    kept = correlation(of.ink[frames].reshape(-1), world.ink[code].reshape(-1), y.reshape(-1), None)
    error = np.abs(odd - y.mean(axis=1)).mean()
    return {"y_right": float((label == y).mean()), "ink": kept.estimate, "share_off": float(error)}


def rows_of(seeds: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row for each way: means over seeds, and the worst upper end of both attackers over all seeds."""
    longest = str(max(LENGTHS))
    for way in WAYS:
        row: dict[str, Any] = {"way": way.name, "stays": {}}
        for stays in map(str, STAYS):
            ones = [seed["stays"][stays][way.name] for seed in seeds]
            found = {
                length: {
                    "mean": float(np.mean([one[length]["every"]["estimate"] for one in ones])),
                    "high": max(max(one[length][name]["high"] for one in ones) for name in ("every", "first")),
                }
                for length in map(str, LENGTHS)
            }
            row["stays"][stays] = {
                "lengths": found,
                "y_alone": float(np.mean([one[longest]["y_alone"] for one in ones])),
                "right": float(np.mean([one[longest]["right"] for one in ones])),
                "forest": max((one["forest"]["high"] for one in ones if "forest" in one), default=None),
                "bound": min(
                    (one[longest]["bound_first"] for one in ones if "bound_first" in one[longest]), default=None
                ),
                "within": ones[0]["within"] if ones[0]["within"] is None else all(one["within"] for one in ones),
                "costs": {name: float(np.mean([one["costs"][name] for one in ones])) for name in ones[0]["costs"]},
            }
            row["epsilon"] = ones[0].get("epsilon")
        yield row


def main() -> int:
    """Make the seeds that are missing and the record of all; 3 where an attacker is beyond a bound."""
    script = record.Script(__file__, __doc__, out=RESULT)
    script.add_argument("--runs", type=Path, default=Path("runs/stream-bounds"), help="runs, and what they sent")
    script.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    script.add_argument("--tracks", type=int, default=20_000, help="tracks of test rows (default: 20,000)")
    script.add_argument("--trees", type=int, default=100)
    options = script.parse_args()
    seeds = []
    for seed in options.seeds:
        found = record.kept(options.runs / f"sent-{seed}.json", lambda seed=seed: released(seed, options.runs))
        measure = functools.partial(measured, seed, found, options.tracks, options.trees)
        stays = record.kept(options.runs / f"measured-{seed}-{options.tracks}.json", measure)
        seeds.append({"seed": seed, "codes": opened(found)[0].codes, "stays": stays})
        print(f"seed {seed}: done", flush=True)
    table = list(rows_of(seeds))
    settings = {
        "lengths": LENGTHS,
        "votes": VOTES,
        "codes": seeds[0]["codes"],
        "tracks": options.tracks,
        "trees": options.trees,
    }
    document = {"recipe": RECIPE, "settings": settings, "rows": table, "seeds": seeds, **record.here()}
    record.write(options.out, script.made_by(options), document)
    kept = [one["within"] for row in table for one in row["stays"].values() if one["within"] is not None]
    print(f"{sum(kept)} of {len(kept)} within their bounds")
    return 0 if all(kept) else 3


if __name__ == "__main__":
    record.run(main)
