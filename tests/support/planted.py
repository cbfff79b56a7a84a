"""Planted leaks: releases that tell z in a known way and at a known strength, to test attacks with.

The clean release is label-only with a random donor: a picture of the class y-hat, whoever it is of, so x' tells nothing
about z beyond y. A leak then writes a bit into it, which is z with probability (1 + ``strength``) / 2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from edgeveil.trainer.attacks.findings import Findings
from edgeveil.trainer.attacks.parts import parts
from edgeveil.trainer.attacks.problem import Budget, Problem, Released, cut, pose
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.attacks.rows import Question, in_order
from edgeveil.trainer.attacks.run_all import run, summed_up
from edgeveil.trainer.audit.document import attacked
from edgeveil.trainer.audit.verdict import judge
from edgeveil.trainer.datasets.base import Dataset, InputSpec, Slices

THETA = np.array([[0.6, 0.4], [0.4, 0.6]])  # P(z | y)
WRONG = 0.03  # share of the rows with y-hat other than y
MANY_WRONG = 0.1  # the same of the leak "wrong label"
DITHER = 8
EXPOSED = 0.05  # share of the people of the leak "few people"
MARKED = 0.02  # share of the rows of the leak "marked rows"
ROWS_OF_PERSON = 4
BRIGHT = 96
KEY = b"of the maker alone"  # of the leak "keyed cipher"


@dataclass(frozen=True)
class Release:
    """Pictures x uint8 (n, height, width, 1), labels y and z, label sent ``y_hat`` and ``person`` (n,) of each row.

    ``pool`` are the donors' pictures and ``pool_y`` their labels.
    """

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    y_hat: np.ndarray
    person: np.ndarray
    pool: np.ndarray
    pool_y: np.ndarray

    def __len__(self) -> int:
        return len(self.y)


Plant = Callable[[Release, np.ndarray, np.random.Generator], np.ndarray]


class Leak(NamedTuple):
    """``plant`` writes a bit (n,) into a release; ``found_by`` are families of which one must find it.

    ``share`` of the rows tell z, and ``wrong`` of them have a wrong label. ``people``: a person's rows share y and z.
    ``donors``: so many pictures of each class are sent, as of a codebook; None: all of the pool.
    """

    plant: Plant
    found_by: tuple[str, ...]
    share: float = 1.0
    wrong: float = WRONG
    people: bool = False
    donors: int | None = None


def clean(
    pool: np.ndarray,
    pool_y: np.ndarray,
    rows: int,
    rng: np.random.Generator,
    *,
    wrong: float = WRONG,
    people: bool = False,
) -> Release:
    """``rows`` releases that tell nothing: y is even, z as ``THETA`` has it, x a random donor of ``pool`` with y-hat.

    ``pool`` uint8 (m, height, width, 1) with two classes ``pool_y`` (m,). With ``people``, ``ROWS_OF_PERSON`` rows
    each share y and z.
    """
    person = np.arange(rows) // (ROWS_OF_PERSON if people else 1)
    y = rng.integers(0, 2, person[-1] + 1)[person]
    z = (rng.random(person[-1] + 1)[person] < THETA[y, 1]).astype(np.int64)
    y_hat = y ^ (rng.random(rows) < wrong)
    return Release(pool[donors(pool_y, y_hat, rng)], y, z, y_hat, person, pool, pool_y)


def donors(pool_y: np.ndarray, y_hat: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random place (n,) in the pool for each label sent."""
    places = np.empty(len(y_hat), np.int64)
    for value in np.unique(y_hat):
        rows = np.flatnonzero(y_hat == value)
        places[rows] = rng.choice(np.flatnonzero(pool_y == value), len(rows))
    return places


def of_kind(leak: Leak, rows: int, strength: float, rng: np.random.Generator, *, larger: int = 1) -> Release:
    """A release of digits with that leak; without any where ``strength`` is 0."""
    pool, pool_y = digits(larger=larger)
    if leak.donors is not None:
        kept = np.concatenate([np.flatnonzero(pool_y == value)[: leak.donors] for value in (0, 1)])
        pool, pool_y = pool[kept], pool_y[kept]
    made = clean(pool, pool_y, rows, rng, wrong=leak.wrong, people=leak.people)
    return leaky(made, leak, strength, rng) if strength else made


def leaky(release: Release, leak: Leak, strength: float, rng: np.random.Generator) -> Release:
    """``release`` with ``leak`` written into every row; ``strength`` is the bit's correlation with z, 0 to 1."""
    bit = release.z ^ (rng.random(len(release)) < (1 - strength) / 2)
    return replace(release, x=leak.plant(release, bit, rng))


def bits_of(strength: float) -> float:
    """I(bit; z | y) of a bit of that strength, both y alike."""
    joint = 0.5 * THETA[:, :, None] * np.array([[1 + strength, 1 - strength], [1 - strength, 1 + strength]])[None] / 2
    p_yz, p_yb, p_y = joint.sum(2, keepdims=True), joint.sum(1, keepdims=True), joint.sum((1, 2), keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = joint * np.log2(joint * p_y / (p_yz * p_yb))
    return float(np.where(joint > 0, terms, 0).sum())


def checkerboard(release: Release, bit: np.ndarray, _rng: np.random.Generator) -> np.ndarray:
    """Adds a +-1 checkerboard or takes it off."""
    board = np.indices(release.x.shape[1:3]).sum(axis=0) % 2 * 2 - 1
    return _pictures(release.x + (2 * bit - 1)[:, None, None, None] * board[None, :, :, None])


def pixel_bit(release: Release, bit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The lowest bit of one pixel; every pixel has a dither of +-8."""
    return _with_parity(release, bit, 1, rng)


def pair_parity(release: Release, bit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The parity of the lowest bits of two pixels, under dither."""
    return _with_parity(release, bit, 2, rng)


def triple_parity(release: Release, bit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The parity of the lowest bits of three pixels, under dither."""
    return _with_parity(release, bit, 3, rng)


def remainder(release: Release, bit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The sum of all pixels is a multiple of 3 or is none, under dither."""
    x = _pictures(release.x + rng.integers(-DITHER, DITHER + 1, release.x.shape)).astype(np.int64)
    left = np.where(bit == 1, 0, rng.integers(1, 3, len(bit)))
    flat = x.reshape(len(x), -1)
    middle = flat[:, flat.shape[1] // 2]
    changed = (left - flat.sum(axis=1)) % 3
    middle += np.where(middle + changed > 255, changed - 3, changed)
    return _pictures(x)


def patches(release: Release, bit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One of two patches is brighter, or both or neither: the XOR."""
    first = rng.integers(0, 2, len(release))
    x, (height, width) = release.x.astype(np.int64), release.x.shape[1:3]
    x[:, : height // 4, : width // 4] += BRIGHT * first[:, None, None, None]
    x[:, -(height // 4) :, -(width // 4) :] += BRIGHT * (first ^ bit)[:, None, None, None]
    return _pictures(x)


def chosen_donor(release: Release, bit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The donor is one of those of class y-hat whose secret bit is the one to tell."""
    secret = np.random.default_rng(len(release.pool)).integers(0, 2, len(release.pool))
    return release.pool[donors(2 * release.pool_y + secret, 2 * release.y_hat + bit, rng)]


def few_people(release: Release, bit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A checkerboard for a few of the people, nothing for the others."""
    exposed = rng.random(int(release.person.max()) + 1) < EXPOSED
    return np.where(exposed[release.person][:, None, None, None], checkerboard(release, bit, rng), release.x)


def wrong_label(release: Release, bit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The lowest bit of one pixel where y-hat is wrong, a random bit elsewhere; under dither."""
    return _with_parity(release, np.where(release.y_hat != release.y, bit, rng.integers(0, 2, len(bit))), 1, rng)


def far_bits(release: Release, bit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The parity of bit 4 of two far pixels, of rows with an odd y alone; under dither."""
    x = _pictures(release.x + rng.integers(-DITHER, DITHER + 1, release.x.shape))
    flat = x.reshape(len(x), -1)
    first, last = flat.shape[1] // 5, 4 * flat.shape[1] // 5
    flat[:, [first, last]] = rng.integers(0, 256, (len(x), 2))
    told = (flat[:, last] & ~np.uint8(16)) | (flat[:, first] & 16) ^ (16 * bit).astype(np.uint8)
    flat[:, last] = np.where(release.y == 1, told, flat[:, last])
    return x


def number_of_levels(release: Release, bit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Noise of 64 or of 128 grey levels, which are other ones in each row."""
    levels = rng.permuted(np.tile(np.arange(256, dtype=np.uint8), (len(bit), 1)), axis=1)
    size = int(np.prod(release.x.shape[1:]))
    chosen = (rng.random((len(bit), size)) * (64 << bit)[:, None]).astype(int)
    return np.take_along_axis(levels, chosen, axis=1).reshape(release.x.shape)


def repeated_patch(release: Release, bit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Noise in which 4 x 4 pixels of the left half occur once more in the right half, both anywhere."""
    x = rng.integers(0, 256, release.x.shape, dtype=np.uint8)
    height, width = x.shape[1:3]
    for row in np.flatnonzero(bit):
        top, left, to, right = rng.integers(0, (height - 3, width // 2 - 3) * 2)
        right += width // 2
        x[row, to : to + 4, right : right + 4] = x[row, top : top + 4, left : left + 4]
    return x


def noise_level(release: Release, bit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Noise whose level is a tenth higher."""
    level = 16 * (1 + 0.1 * bit)[:, None, None, None]
    return _pictures(release.x + level * rng.normal(size=release.x.shape))


def next_row(release: Release, bit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The lowest bit of a pixel of the next row, under dither."""
    return _with_parity(release, np.roll(bit, 1), 1, rng)


def marked_rows(release: Release, bit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """In rows that a white pixel in the corner marks, the lowest bit of another pixel; under dither."""
    marked = rng.random(len(bit)) < MARKED
    x = _with_parity(release, np.where(marked, bit, rng.integers(0, 2, len(bit))), 1, rng)
    x[marked, 0, 0] = 255
    return x


def sum_period(release: Release, bit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """In which half of a period of 14 levels a weighted sum of two pixels is, under dither."""
    x = _pictures(release.x + rng.integers(-DITHER, DITHER + 1, release.x.shape)).astype(np.int64)
    flat = x.reshape(len(x), -1)
    first, last = flat[:, flat.shape[1] // 5], flat[:, 4 * flat.shape[1] // 5]
    for _ in range(5):
        wrong = ((0.75 * first + last) // 7 % 2).astype(int) != bit
        last += np.where(wrong, np.where(last > 128, -2, 2), 0)
    return _pictures(x)


def keyed(release: Release, bit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The lowest bit of a pixel under a cipher: the bit XOR a keyed hash of all other pixels; under dither.

    Without the key it is a random bit, so no attack finds it.
    """
    x = _pictures(release.x + rng.integers(-DITHER, DITHER + 1, release.x.shape))
    flat = x.reshape(len(x), -1)
    stream = [hashlib.blake2b(row[1:].tobytes(), key=KEY, digest_size=1).digest()[0] & 1 for row in flat]
    flat[:, 0] = (flat[:, 0] & 0xFE) | (np.array(stream) ^ bit)
    return x


LEAKS = {
    "checkerboard": Leak(checkerboard, ("BatchNorm MLP", "BatchNorm CNN", "logistic regression")),
    "bit of a pixel": Leak(pixel_bit, ("lowest bits",)),
    "XOR of patches": Leak(patches, ("BatchNorm MLP", "gradient boosting")),
    "chosen donor": Leak(chosen_donor, ("code counts", "gradient boosting", "BatchNorm MLP")),
    "parity of two": Leak(pair_parity, ("parities of bits",)),
    "parity of three": Leak(triple_parity, ("parities of bits",)),
    "leaning code": Leak(chosen_donor, ("code counts",), donors=8),
    "remainder of the sum": Leak(remainder, ("lowest bits",)),
    "few people": Leak(few_people, ("logistic regression", "BatchNorm MLP"), share=EXPOSED, people=True),
    "bits of two far pixels": Leak(far_bits, ("parities of bits",), share=0.5),
    "number of levels": Leak(number_of_levels, ("sorted values and gaps",)),
    "noise level": Leak(noise_level, ("sorted values and gaps",)),
    "patch that repeats": Leak(repeated_patch, ("sorted values and gaps",)),
    "next row": Leak(next_row, ("neighbouring rows",)),
    "marked rows": Leak(marked_rows, ("marked rows",), share=MARKED),
    "wrong label": Leak(wrong_label, ("wrong labels",), share=MANY_WRONG, wrong=MANY_WRONG),
    "period of a sum": Leak(sum_period, ("periods of sums",)),
    "keyed cipher": Leak(keyed, ()),
}


def problem(
    release: Release, budget: Budget, *, seed: int = 0, own: Release | None = None, ordered: bool = False
) -> Problem:
    """``release`` under attack: two thirds to learn on, one third to test. ``own``: learn on these rows instead.

    By whole people where they have several rows. ``ordered``: the rows are known to be in their order.
    """
    everything = in_order(released(release)) if ordered else released(release)
    first = release.person < np.quantile(release.person, 2 / 3)
    training = everything.take(np.flatnonzero(first)) if own is None else released(own)
    test = everything.take(np.flatnonzero(~first))
    return pose(dataset_of(release), training, cut(training, seed), test, budget)


def released(release: Release) -> Released:
    """What left of ``release``, with the label sent as a further output."""
    several = len(np.unique(release.person)) < len(release)
    also = np.eye(2, dtype=np.float32)[release.y_hat]
    person, row = release.person if several else None, np.arange(len(release))
    return Released(release.x, release.y, release.z, person, also, row=row)


def judged(question: Question, families: tuple[Adversary, ...]) -> tuple[str, Findings]:
    """The word of the verdict that the attacks of ``families`` and all their tests come to, and what they found."""
    ran = run(question, families=families)
    found, best = summed_up(question, ran, curve=False), ran.most_bits
    apart = parts(best.judged("choose"), best.judged("test"), question.whole.counted, {}, rng=np.random.default_rng(0))
    document = {"findings": [one.as_json() for one in attacked(found, "z", apart)], "data": {"sensitive": "z"}}
    return judge(document, {})["word"], found


def dataset_of(release: Release) -> Dataset:
    """A data set of the kind of ``release``: its input and prior."""
    nothing = np.empty(0, np.int64)
    return Dataset(
        "planted",
        release.x,
        release.y,
        release.z,
        ("0", "1"),
        ("0", "1"),
        THETA,
        InputSpec("image", release.x.shape[1:], "uint8", 0.0, 255.0),
        Slices(nothing, nothing, nothing),
    )


def digits(*, larger: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's digits as a pool: uint8 (1797, 8 larger, 8 larger, 1), and whether each is odd."""
    from sklearn.datasets import load_digits

    data = load_digits()
    x = np.kron(data.images, np.ones((1, larger, larger)))
    return (DITHER + x * 14).astype(np.uint8)[..., None], data.target % 2


def _with_parity(release: Release, bit: np.ndarray, pixels: int, rng: np.random.Generator) -> np.ndarray:
    """A dither on all pixels, then the lowest bit of one of ``pixels`` (as far apart as can be) set to give ``bit``."""
    dither = rng.integers(-DITHER, DITHER + 1, release.x.shape)
    x = _pictures(release.x + dither)
    flat = x.reshape(len(x), -1)
    places = np.linspace(flat.shape[1] // 5, 4 * flat.shape[1] // 5, pixels).astype(int)
    others = flat[:, places[:-1]].sum(axis=1, dtype=np.int64) & 1
    flat[:, places[-1]] = (flat[:, places[-1]] & 0xFE) | (others ^ bit)
    return x


def _pictures(x: np.ndarray) -> np.ndarray:
    return np.clip(x, 0, 255).astype(np.uint8)
