"""The shipped stages, run over every value of their draws: no report's odds move by more than e^alpha."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from edgeveil.edge_runtime.manifest.spending import epsilon_of
from edgeveil.edge_runtime.stages import STAGES
from tests.support.once import nightly_but
from tests.support.promised import local_examples as local

ALPHAS = (0.1, 1, 5)
Law = dict[bytes, Fraction]
HALF = Fraction(1, 2)


def logarithm(ratio: Fraction) -> Decimal:
    with localcontext() as digits:
        digits.prec = 50
        return (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln()


def worst(laws: list[Law]) -> Decimal:
    """The largest log-ratio of the probabilities of one report under two inputs."""
    reports = set().union(*laws)
    ratio = max(max(law[r] for law in laws) / min(law.get(r, Fraction(0)) for law in laws) for r in reports)
    return logarithm(ratio)


def check(laws: list[Law], alpha: float, slack: float | None) -> None:
    """Each is a law; none tells more than alpha, and together they tell no less than ``slack`` below it."""
    assert all(sum(law.values()) == 1 for law in laws)
    found = worst(laws)
    assert found <= Decimal(str(alpha))
    if slack is not None:
        assert found >= Decimal(str(alpha)) - Decimal(str(slack))


def every(*columns: list[tuple[object, Fraction]]) -> tuple[list[np.ndarray], list[Fraction]]:
    """All combinations of draws, each draw a list of (value, probability): arrays by draw, and their probabilities."""
    rows, weights = list(itertools.product(*columns)), [Fraction(1)]
    for column in columns:
        weights = [weight * probability for weight in weights for _, probability in column]
    return [np.array([row[place][0] for row in rows]) for place in range(len(columns))], weights


def coins(stage: dict, count: int = 1) -> list[tuple[object, Fraction]]:
    true = Fraction(stage["numerator"], local.COIN)
    found = []
    for values in itertools.product((False, True), repeat=count):
        probability = Fraction(1)
        for value in values:
            probability *= true if value else 1 - true
        found.append((values if stage["shape"] else values[0], probability))
    return found


def law(parts: dict, x: np.ndarray, draws: dict[str, np.ndarray], weights: list[Fraction]) -> Law:
    """The law of the report of one x, of dtype uint8, by the shipped pipeline."""
    out = local.pipeline(parts, {}).run(np.tile(x.astype(np.uint8), (len(weights), 1)), draws)["report"]
    whole, found = math.lcm(*(weight.denominator for weight in weights)), defaultdict(int)
    for report, weight in zip(out, weights, strict=True):  # sums of integers: a fraction each takes ten times as long
        found[report.tobytes()] += weight.numerator * (whole // weight.denominator)
    return {report: Fraction(parts, whole) for report, parts in found.items()}


def named(parts: dict) -> dict[str, dict]:
    return {stage["output"]: stage for stage in parts["stages"] if stage["stage"] == "draw"}


def corners(d: int) -> Iterator[np.ndarray]:
    return (np.array(v) for v in itertools.product((0, 16), repeat=d))


def cube_laws(d: int, alpha: float) -> tuple[list[Law], dict]:
    """At the corners, where no word rounds otherwise: over all fair bits and both sides of the coin."""
    parts, _ = local.document("duchi-linf", alpha, d)
    bits = d + 1 - d % 2
    fair = [((word,), Fraction(1, 2**bits)) for word in range(2**bits)]
    (fair, turn), weights = every(fair, coins(named(parts)["turn"]))
    found = []
    for v in corners(d):
        for word in (0, 2**32 - 1):
            rounding = np.full((len(weights), (d + 1) // 2), word, np.uint32)
            draws = {"rounding": rounding, "fair": fair.astype(np.uint32), "turn": turn}
            found.append(law(parts, v, draws, weights))
    return found, parts


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("d", nightly_but(range(1, 7), *range(1, 6)))
def test_duchi_of_the_cube(d, alpha):
    laws, parts = cube_laws(d, alpha)
    check(laws, alpha, 1e-8)
    assert abs(epsilon_of(parts["stages"], parts["outputs"], {}) - worst(laws)) < Decimal("1e-40")


def test_duchi_inside_the_cube_over_every_word_too():
    parts, _ = local.document("duchi-linf", 1, 1)
    words = [(word, Fraction(1, 2**16)) for word in range(2**16)]
    (word, fair, turn), weights = every(words, [(0, HALF), (1, HALF)], coins(named(parts)["turn"]))
    draws = {"rounding": word[:, None].astype(np.uint32), "fair": fair[:, None].astype(np.uint32), "turn": turn}
    ends = [law(parts, np.array([x]), draws, weights) for x in (0, 4, 16)]
    check(ends, 1, 1e-8)
    up, p = ends[1][np.int8(1).tobytes()], Fraction(local.coin(1), local.COIN)
    assert up == p / 4 + (1 - p) * 3 / 4  # u = 4/16


def published(d: int, alpha: float) -> list[Law]:
    """The published form: both half cubes closed, so that an even d has its ties in both."""
    p = Fraction(local.coin(alpha), local.COIN)
    cube = [np.array(v) for v in itertools.product((-1, 1), repeat=d)]
    laws = []
    for v in cube:
        halves = [[z for z in cube if sign * z @ v >= 0] for sign in (1, -1)]
        found: Law = defaultdict(Fraction)
        for half, weight in zip(halves, (p, 1 - p), strict=True):
            for z in half:
                found[z.tobytes()] += weight / len(half)
        laws.append(found)
    return laws


@pytest.mark.parametrize("d", [2, 4, 6])
def test_the_published_form_for_even_d_fails_the_same_check(d):
    with pytest.raises(AssertionError):
        check(published(d, 1), 1, 1e-8)
    check(published(d - 1, 1), 1, 1e-8)
    if d == 2:
        assert float(worst(published(d, 1))) == pytest.approx(np.log(np.e + 1), abs=1e-9)


def test_what_is_below_alpha_is_noticed_too():
    laws, _ = cube_laws(2, 0.9)
    with pytest.raises(AssertionError):
        check(laws, 1, 1e-8)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("k", [2, 3, 8])
@pytest.mark.parametrize("op", ["oue", "rappor"])
def test_bits(op, k, alpha):
    parts, _ = local.document(op, alpha, k)
    draws = named(parts)
    (own, others), weights = every(coins(draws["own"]), coins(draws["others"], k))
    laws = [law(parts, 16 * (np.arange(k) == c), {"own": own, "others": others}, weights) for c in range(k)]
    check(laws, alpha, 1e-8)
    assert abs(epsilon_of(parts["stages"], parts["outputs"], {}) - worst(laws)) < Decimal("1e-40")


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("k", [2, 3, 8])
def test_hadamard(k, alpha):
    parts, _ = local.document("hrr", alpha, k)
    rows = named(parts)["row"]["bound"]
    (row, turn), weights = every([(r, Fraction(1, rows)) for r in range(rows)], coins(named(parts)["turn"]))
    laws = [law(parts, 16 * (np.arange(k) == c), {"row": row, "turn": turn}, weights) for c in range(k)]
    check(laws, alpha, 1e-8)
    assert abs(epsilon_of(parts["stages"], parts["outputs"], {}) - worst(laws)) < Decimal("1e-40")


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("k", [2, 3, 8])
@pytest.mark.parametrize("op", ["cms", "hcms"])
def test_sketches(op, k, alpha):
    """Over every hash function, and every bit or entry; among the functions are some that part the categories."""
    parts, _ = local.document(op, alpha, k)
    draws = named(parts)
    row = [(r, Fraction(1, 4)) for r in range(4)]
    columns = [row, coins(draws["kept"], 8)] if op == "cms" else [row, [(e, Fraction(1, 8)) for e in range(8)]]
    columns += [coins(draws["turn"])] if op == "hcms" else []
    values, weights = every(*columns)
    lots = dict(zip(draws, values, strict=True))
    laws = [law(parts, 16 * (np.arange(k) == c), lots, weights) for c in range(k)]
    check(laws, alpha, 1e-8)
    assert len(laws[0]) == 4 * (2**8 if op == "cms" else 8 * 2)
    assert abs(epsilon_of(parts["stages"], parts["outputs"], {}) - worst(laws)) < Decimal("1e-40")


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("k", [2, 3, 8, 256])
def test_a_channel_costs_what_its_table_says(k, alpha):
    table = local.channel(k, alpha)
    laws = [{str(c).encode(): Fraction(int(n), 2**32) for c, n in enumerate(row)} for row in table]
    check(laws, alpha, 1e-5 if alpha < 1 else 3e-6)  # 32 bits are few for 256 categories that hardly differ
    parts, tables = local.document("k-rr", alpha, k)
    assert abs(epsilon_of(parts["stages"], parts["outputs"], tables) - worst(laws)) < Decimal("1e-40")


@pytest.mark.parametrize("alpha", ALPHAS)
def test_hybrid_on_a_small_grid(alpha):
    """d = 2: one place, or both at alpha 5. u is a multiple of 1/R, so that the window starts on the grid."""
    grid = {0.1: 12, 1: 11, 5: 6}[alpha]
    parts, _ = local.document("hybrid", alpha, 2, grid=grid)
    parts["input"]["high"] = parts["stages"][0]["high"] = 4.0
    draws = named(parts)
    k = draws["places"]["shape"][0]
    if "which" in draws:  # R = 4 or 8, whatever the exponential would have
        window, rest = grid - 4 * (2 // k), 4 * (2 // k)
        draws["within"]["bound"], draws["beyond"]["bound"] = window, rest
        odds = local._exp(alpha / k) * window / rest
        draws["kept"]["numerator"] = int(local.COIN * (odds / (odds + 1)))
    alone = [("rounding", [(0, HALF), (2**32 - 1, HALF)])]
    alone += [(name, coins({**draws[name], "shape": []})) for name in ("turn", "which", "kept") if name in draws]
    alone += [
        (name, [(value, Fraction(1, draws[name]["bound"])) for value in range(draws[name]["bound"])])
        for name in ("within", "beyond")
        if name in draws
    ]
    one, weight = every(*(values for _, values in alone))
    names = [name for name, _ in alone]
    laws = []
    for x in itertools.product((0, 1, 2, 4), repeat=2):
        total: Law = defaultdict(Fraction)
        for places in itertools.combinations(range(2), k):
            laid = _placed(dict(zip(names, one, strict=True)), weight, [x[place] / 4 for place in places])
            laid["draws"]["places"] = np.tile(places, (len(laid["weights"]), 1))
            for report, chance in law(parts, np.array(x), laid["draws"], laid["weights"]).items():
                total[report] += chance * Fraction(k, 2)
        laws.append({report: chance for report, chance in total.items() if chance})
    check(laws, alpha, None)
    spent = epsilon_of(parts["stages"], parts["outputs"], {})
    assert worst(laws) <= spent <= Decimal(str(alpha))
    assert spent - worst(laws) < Decimal("1e-40")


def _placed(one: dict[str, np.ndarray], weights: list[Fraction], values: list[float]) -> dict:
    """All combinations of the draws at each place; the word that rounds up has weight u, the other 1 - u."""
    rows = list(itertools.product(range(len(weights)), repeat=len(values)))
    found = {name: np.array([[column[i] for i in row] for row in rows]) for name, column in one.items()}
    found["rounding"] = found["rounding"].astype(np.uint32)
    joint = [Fraction(1)]
    for u in map(Fraction, values):
        here = [w * 2 * (u if word == 0 else 1 - u) for w, word in zip(weights, one["rounding"], strict=True)]
        joint = [weight * own for weight in joint for own in here]
    return {"draws": found, "weights": joint}


def test_duchi_of_the_ball_turns_by_its_coin_alone_to_the_last_bit():
    parts, _ = local.document("duchi-l2", 1, 5, radius=1.5)
    rng = np.random.default_rng(0)
    n = 2000
    x = rng.integers(0, 17, (n, 5)).astype(np.uint8)
    x[0] = 8  # the middle of the ball: <z, v> = 0, a tie
    draws = {
        "direction": rng.integers(0, 2**32, (n, 6), np.uint32),
        "rounding": rng.integers(0, 2**32, (n, 1), np.uint32),
    }
    run = local.pipeline(parts, {}).run
    by_coin = [run(x, {**draws, "turn": np.full(n, turn)})["report"] for turn in (False, True)]
    assert (by_coin[0] == -by_coin[1]).all()
    length, angle = np.split((draws["direction"][0] >> 9) + 0.5, 2)
    first = np.sqrt(-2 * np.log(length[0] * 2.0**-23)) * np.cos(2 * np.pi * angle[0] * 2.0**-23)
    assert np.sign(by_coin[1][0, 0]) == np.sign(first)  # a tie counts as agreement
    other = run(x[::-1].copy(), {**draws, "turn": np.full(n, True)})["report"]
    assert ((other == by_coin[1]).all(axis=1) | (other == by_coin[0]).all(axis=1)).all()
    assert (other != by_coin[1]).any()
    w = (x / 8.0 - 1) / 1.5
    up = draws["rounding"][:, 0] < (0.5 + np.minimum(np.linalg.norm(w, axis=1), 1) / 2) * 2.0**32
    side = np.einsum("nd,nd->n", by_coin[1], w) * np.where(up, 1, -1)
    assert (side[np.abs(side) > 1e-6] > 0).all()
    np.testing.assert_allclose(np.linalg.norm(by_coin[1], axis=1), 1, rtol=1e-6)


def test_laplace_places_differ_by_no_more_than_the_promise_counts():
    parts, _ = local.document("laplace", 1, 3)
    zero = {"steps": np.zeros((1, 3), np.int64)}
    run = local.pipeline(parts, {}).run
    ends = [run(np.full((1, 3), x, np.uint8), zero)["report"].astype(int) for x in (0, 16)]
    step = named(parts)["steps"]
    spent = np.abs(ends[1] - ends[0]).sum() * step["denominator"] / step["numerator"]
    assert float(epsilon_of(parts["stages"], parts["outputs"], {})) == pytest.approx(spent, rel=1e-15)
    assert spent <= 1


def test_the_dummy_place_decides_where_the_others_are_even():
    """v = (1, 1); z agrees in one of two places, and in the dummy or not: kept where that is what the coin says."""
    parts, _ = local.document("duchi-linf", 1, 2)
    draws = {
        "rounding": np.zeros((4, 1), np.uint32),
        "fair": np.array([[0b001], [0b101], [0b001], [0b101]], np.uint32),
        "turn": np.array([True, True, False, False]),
    }
    out = local.pipeline(parts, {}).run(np.full((4, 2), 16, np.uint8), draws)["report"]
    assert out.tolist() == [[-1, 1], [1, -1], [1, -1], [-1, 1]]


def test_every_mechanism_is_among_the_examples():
    mechanisms = {name.partition(" ")[2] for name in STAGES.kinds() if name.startswith("mechanism ")}
    assert mechanisms - set(local.OPS) == {"rappor-again"}  # the second round of rappor: test_held_reports.py
