"""What is counted on the codes of the very artefact that was audited: bounds on average and for every received code.

Who knows y learns most where y-hat is wrong. A code comes with a wrong y seldom, so most such pairs are rare and have
no bound, however many codes are merged. Who has y-hat alone, which is sent, meets every code in its own class: there
every code is bounded, where each has rows enough.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks import rows, sequences
from edgeveil.trainer.audit.findings import Finding
from edgeveil.trainer.audit.sections import About, Section
from edgeveil.trainer.audit.subject import RELEASED, SENT, Bottleneck
from edgeveil.trainer.datasets.base import Dataset, taken
from edgeveil.trainer.measures import attack_metrics, certificate
from edgeveil.trainer.measures.black_box import total_variation
from edgeveil.trainer.measures.certificate import over_null
from edgeveil.trainer.measures.enough import RATE
from edgeveil.trainer.measures.per_code import PerCode, per_code

COVERED = 0.9  # of the samples, by pairs of that many units; below, there is no bound worth the name
ALMOST = 0.5  # of the way from P(z | y) to certainty; beyond, a factor says little

KIND = {"kind": "certificate"}
CHANNEL, CODES = "channel", "codes"  # what is asked, where it is not z: of the channel alone, and of linked codes
EVERY, OF_CLASS = "worst code", "worst code, given the class that is sent"


def per_code_section(
    y: np.ndarray,
    code: np.ndarray,
    z: np.ndarray,
    *,
    shape: tuple[int, int, int],
    cluster: np.ndarray | None,
    confidence: float,
    tried: int,
    releases: Sequence[int],
    unit: str,
    slices: str,
    seed: int,
    looks: int = 0,
    sendable: np.ndarray | None = None,
) -> list[Finding]:
    """Bound the received codes (n,) of rows y, z (n,) that training never saw.

    ``shape`` is (classes of y, codes, classes of z). ``sendable`` (codes,) are those that can leave at all, where those
    of each y-hat are together, so that a code tells it; None: a code does not, or tells nothing else. ``unit`` names
    the independent units, ``cluster`` (n,), and ``slices`` those that the rows are of. F is also given for so many
    linked ``releases``. ``tried`` and ``looks`` share the confidence, as in ``certificate.Certificate``.
    """
    settings: dict[str, Any] = {"shape": shape, "cluster": cluster, "confidence": confidence}
    settings["tried"] = certificate.shared(tried, looks)
    every = per_code(y, code, z, rng=np.random.default_rng([seed, 11]), **settings)
    often, enough = None, every.fewest >= RATE
    if not enough:
        with contextlib.suppress(BadInput):  # no pair has as many
            often = per_code(y, code, z, rng=np.random.default_rng([seed, 11]), fewest=RATE, **settings)
    bound = every if often is None else often
    given = enough or (often is not None and often.share >= COVERED)
    needed = None if enough else _rounded_up(every.units * RATE / max(every.fewest, 1))
    about = {"unit": unit, "slices": slices, "terms": certificate.chosen(tried, looks)}
    text = _sentence(every, bound, given=given, needed=needed, **about)
    figures = {"estimate": bound.estimate, "leakage_bits": math.log2(bound.factor), "certainty": bound.certainty}
    figures |= {"capacity": bound.capacity, "capacity_high": bound.capacity_high}
    more: dict[str, Any] = {
        **KIND,
        **_finite(over_all_seen=every.factor, **figures),
        "worst": {"y": bound.worst[0], "code": bound.worst[1], "units": bound.at_worst},
        "pairs": {"bounded": bound.pairs, "rare": bound.rare, "unseen": bound.unseen},
        **{"share": bound.share, "fewest": every.fewest, "needed": needed},
        **{"confidence": confidence, "tried": tried, "looks": looks},
    }
    findings = [_bounded(EVERY, bound, text, given=given, more=more)]
    if sendable is not None:
        predicted = code // (shape[1] // shape[0])
        one = per_code(predicted, code, z, rng=np.random.default_rng([seed, 13]), **settings)
        codes = int(sendable.sum())
        more = {**KIND, "codes": codes, "unseen": codes - one.pairs, "fewest": one.fewest if codes == one.pairs else 0}
        given = more["fewest"] >= RATE
        findings.append(_bounded(OF_CLASS, one, _sentence_of_class(one, more, unit), given=given, more=more))
    if given or findings[0].bound:
        text = "F if the codes are independent given y and z: compare the attack on linked codes"
        facts: dict[str, Any] = {"rows": bound.units, "text": text, "more": KIND}
        linked = {t: bound.linked(t) for t in releases if t > 1}
        findings += [
            Finding(CODES, f"{t} linked, at most if independent", "factor", factor, **facts)
            for t, factor in linked.items()
            if math.isfinite(factor)
        ]
    return findings


def _bounded(name: str, found: PerCode, text: str, *, given: bool, more: Mapping[str, Any]) -> Finding:
    """The factor as a bound with its sentence, or why there is none; its figures are kept either way."""
    if not given:
        return Finding(CHANNEL, name, not_run=text, rows=found.units, more={**more, **_finite(factor=found.factor)})
    facts: dict[str, Any] = {"rows": found.units, "bound": True, "text": text, "more": more}
    return Finding(CHANNEL, name, "factor", found.factor, (found.estimate, found.factor), **facts)


def _finite(**numbers: float) -> dict[str, float]:
    """Those that JSON can hold."""
    return {name: float(value) for name, value in numbers.items() if math.isfinite(value)}


def _sentence(
    every: PerCode, bound: PerCode, *, given: bool, needed: int | None, unit: str, slices: str, terms: str
) -> str:
    """The claim with its assumptions, or that too few were counted for one."""
    if not given:
        over_all = "some z may never come with its y, and then no factor bounds its chance"
        if math.isfinite(every.factor):
            certainty = f"certainty about z is a factor of {upper(every.certainty)}"
            over_all = f"over all codes F = {upper(every.factor)} where {certainty}"
        return (
            f"No bound for every code: the {every.units:,} {unit} counted are too few. The rarest code has "
            f"{every.fewest:,} of them, so {over_all}. About {needed:,} {unit} would be needed."
        )
    text = (
        f"No code raises the chance of any value of z, given y, by more than a factor F = {upper(bound.factor)}, with "
        f"{100 * bound.confidence:g} % confidence, for {unit} drawn like those counted ({bound.units:,} {unit} of "
        f"{slices}, which no training saw" + (f", {terms})" if terms else ")")
    )
    prior = 1 / bound.certainty
    if bound.factor >= bound.certainty:
        text += f"; certainty about that z is a factor of {upper(bound.certainty)}, so this bounds nothing"
    elif bound.factor * prior > prior + ALMOST * (1 - prior):
        text += f"; certainty about that z would be a factor of {upper(bound.certainty)}, so this says little"
    if needed is None:
        return f"{text}."
    return (
        f"{text}. This leaves out codes that came with a y for fewer than {RATE} {unit}, "
        f"{100 * (1 - bound.share):.1f} % of the samples: for these F = {upper(every.factor)} says almost nothing, and "
        f"about {needed:,} {unit} would be needed."
    )


def _sentence_of_class(found: PerCode, of_class: Mapping[str, Any], unit: str) -> str:
    codes, fewest = of_class["codes"], of_class["fewest"]
    if fewest < RATE:
        return (
            f"Given the class that is sent in place of y, not every code has a bound either: the rarest of {codes:,} "
            f"was counted for {fewest:,} {unit}. Fewer `perturber.codes` give each more."
        )
    return (
        f"Given the class that is sent in place of y, F = {upper(found.factor)} for every one of the {codes:,} codes "
        f"(the rarest was counted for {fewest:,} {unit})."
    )


def upper(factor: float) -> str:
    """Two decimals, never below the bound; with very few units there is none."""
    if not math.isfinite(factor):
        return "infinity"
    return f"{math.ceil(round(100 * factor, 6)) / 100:,.2f}"


def _rounded_up(number: float) -> int:
    """To two digits, never below."""
    step = 10 ** max(0, int(math.log10(number)) - 1)
    return math.ceil(number / step) * step


RELEASES = (1, 4, 16)  # of one x; of different ones more
DRAWS = 20_000
HALVINGS = 8
SINGLE = "single release only: nothing was counted on sequences as they really occur"
HELD = "a held {unit} is one release, counted as if each sample were a whole one; real ones are under tracks"
HELD_FOR = {"track": "track", "period": "period of a class", "bout": "bout of a class"}

AVERAGE, OVER_NULL, CAPACITY = "counted channel", "counted channel, over z shuffled", "capacity"


def section(
    dataset: Dataset,
    found: Bottleneck,
    outputs: Mapping[str, np.ndarray],
    *,
    of: str,
    table: np.ndarray | None,
    tried: int,
    confidence: float,
    strata: np.ndarray | None,
    seed: int,
    looks: int = 0,
    stream: Mapping[str, Any] | None = None,
) -> list[Finding]:
    """Certify the outputs of the rows of all slices, in their order; counted on the test slice.

    The bound for every code is counted on the slice ``attack`` too: training saw neither.

    ``of`` is the name of z. ``outputs`` has ``sent`` (c) and ``released`` (c') of those rows, ``table`` (codes, codes')
    is the channel between them, None where c' = c. ``strata`` (N,) are those rows of the data set within which z is
    exchangeable by design. ``stream`` is the manifest's: where codes of one person add up, a bound on one release is
    none on what is sent.
    """
    rng, unit = np.random.default_rng(seed), unit_of(dataset)
    classes, test, at = (len(dataset.y_names), len(dataset.z_names)), dataset.part("test"), rows.places(dataset)
    codes = found.rows
    if codes is None:
        codes = -(-(int(outputs[SENT].max()) + 1) // classes[0]) * classes[0]
    q = np.eye(codes) if table is None else table / table.sum(axis=1, keepdims=True)
    code = outputs[SENT][at.test].astype(np.int64)
    coded: dict[str, Any] = {"y": test.y, "code": code, "z": test.z, "cluster": test.cluster, "classes": classes}
    terms: dict[str, Any] = {"confidence": confidence, "tried": tried, "looks": looks}
    chance = attack_metrics.accuracy(rows.prior(dataset)[test.y], test.z)
    strata, hidden = taken(strata, test.index), found.hidden_label
    certified = certificate.certify(
        **coded, **terms, channel=q, chance=chance, strata=strata, hidden_label=hidden, rng=rng
    )
    halves = None
    if dataset.cluster_kind == "subject":
        halves = people_certificate(test.y, code, test.z, test.cluster, q=q, classes=classes, rng=rng)
    beyond = over_null(**coded, q=q, null_bits=certified.null_bits, rng=np.random.default_rng([seed, 12]))
    # The perturber saw neither slice, and this bound is fitted on nothing: both count.
    unseen, released = dataset.rows(rows.unseen(dataset)), outputs[RELEASED][slice(at.fresh.start, at.test.stop)]
    several = (stream or {}).get("hold") in ("frame", "bout") or (stream or {}).get("draws")
    # The codes that can be sent, where each states y-hat and more than that.
    of_class = not hidden and found.rows is not None and len(q) == q.shape[1] > classes[0]
    settings: dict[str, Any] = {"releases": sequences.LENGTHS, "unit": unit, "seed": seed, **terms}
    settings |= {"shape": (classes[0], q.shape[1], classes[1]), "cluster": unseen.cluster}
    settings["slices"] = "attack and test" if len(dataset.slices.attack) else "test"
    settings["sendable"] = (q > 0).any(axis=0) if of_class else None
    bounds = per_code_section(unseen.y, released.astype(np.int64), unseen.z, **settings)
    free = population_free(certified.capacity, hidden_label=hidden)
    counted: dict[str, Any] = {"rows": certified.rows, "more": KIND}
    findings = [
        *bounds,
        _averaged(CHANNEL if several else of, certified, chance, unit, _people(dataset, halves), halves, stream),
        Finding(of, AVERAGE, "bits-counted", certified.bits, null=certified.null_bits, **counted),
        Finding.measured(of, OVER_NULL, "bits-counted", beyond, null=0.0, **counted),
        Finding(CHANNEL, CAPACITY, "factor", max(1.0, certified.capacity), bound=True, text=free, more=KIND),
    ]
    if table is not None:
        # How far the output can shift with x, and what T releases of one x tell.
        spread = max(total_variation(block) for block in q.reshape(1 if hidden else classes[0], -1, q.shape[1]))
        text = "between two samples of one y-hat"
        findings.append(Finding(CHANNEL, "total variation, at most", "number", spread, text=text, more=KIND))
        joint = certificate.count(test.y, code, test.z, shape=(classes[0], codes, classes[1]))
        text = "z from y and codes of one sample, by counts through the known channel"
        for t in RELEASES:
            right = sequences.repeated(joint, q, releases=t, draws=DRAWS, rng=rng)
            findings.append(Finding(CODES, f"{t} of one sample, counted", "right", right, text=text, more=KIND))
    return findings


def _averaged(
    question: str,
    found: certificate.Certificate,
    chance: float,
    unit: str,
    people: str,
    halves: Mapping[str, Any] | None,
    stream: Mapping[str, Any] | None,
) -> Finding:
    """The bound on the average, with what was counted; where too few were, what it needs."""
    more: dict[str, Any] = {"unit": unit, "needed": {"within_10_points": found.needed}, "scope": _scope(stream)}
    more |= {"people": people, "people_splits": halves}
    facts: dict[str, Any] = {"rows": found.rows, "more": {**KIND, **asdict(found), **more}}
    sentence = found.sentence(unit)
    if not found.sufficient:
        return Finding(question, AVERAGE, not_run=sentence, **facts)
    ends = found.plug_in, found.bound
    facts |= {"null": chance, "bound": True, "text": f"{sentence} {people}"}
    return Finding(question, AVERAGE, "right", found.bound, ends, **facts)


def population_free(capacity: float, *, hidden_label: bool) -> str:
    """What the channel alone says, whatever the population: its multiplicative Bayes capacity, in words."""
    given = "" if hidden_label else " over what y-hat alone gives"
    if capacity <= 1 + 1e-9:
        return f"Whatever the population, one code does not raise the chance of being right about anything{given}."
    return (
        "Whatever the population and whatever is asked, one code raises the chance of being right by a factor of at "
        f"most {capacity:.3g}{given}."
    )


def unit_of(dataset: Dataset) -> str:
    """What the independent units of a data set are called, in the plural."""
    return {"subject": "subjects", "session": "recordings", None: "readings"}[dataset.cluster_kind]


def strata_of(dataset: Dataset, names: list[str]) -> np.ndarray | None:
    """Rows (N,) numbered by the values of some attributes; None without any. Raises ``BadInput`` for an unknown one."""
    if not names:
        return None
    for name in names:
        if name not in dataset.attributes:
            known = ", ".join(sorted(dataset.attributes)) or "none"
            raise BadInput(f'certificate.strata: there is no attribute "{name}" in these data; there are: {known}.')
    values = np.stack([dataset.y.astype(np.float64), *(dataset.attributes[name] for name in names)], axis=1)
    return np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)


def _scope(stream: Mapping[str, Any] | None) -> str:
    hold = (stream or {}).get("hold")
    if hold == "frame":
        return f"{SINGLE}, and here every frame is a release: codes of one person add up"
    if hold not in HELD_FOR:
        return SINGLE
    if (stream or {}).get("draws"):
        return f"{SINGLE}, and here several frames of a {HELD_FOR[hold]} are drawn for: their codes add up"
    more = "; bouts of one person add up" if hold == "bout" else ""
    return f"single release only: {HELD.format(unit=HELD_FOR[hold])}{more}"


def people_certificate(
    y: np.ndarray,
    code: np.ndarray,
    z: np.ndarray,
    person: np.ndarray | None,
    *,
    q: np.ndarray,
    classes: tuple[int, int],
    rng: np.random.Generator,
) -> dict[str, Any] | None:
    """How much the counts depend on who is counted: the people are cut into two halves, ``HALVINGS`` times.

    Rows y, code (before the channel ``q``), z and ``person`` (n,). For each half ``plug_in``, the counted best guess of
    z, and ``learned_on_others``, how often the best guess counted on one half is right on the other, without help from
    the noise of counting. Each as mean, low and high over the halves. None where there are fewer than four people.
    """
    if person is None or len(people := np.unique(person)) < 4:
        return None
    shape = (classes[0], len(q), classes[1])
    counted, learned = [], []
    for _ in range(HALVINGS):
        first = np.isin(person, rng.permutation(people)[: len(people) // 2])
        halves = [
            certificate.released_counts(certificate.count(y[rows], code[rows], z[rows], shape=shape), q)
            for rows in (first, ~first)
        ]
        counted += [certificate.bayes_accuracy(half) for half in halves]
        learned += [_guessed(one, other) for one, other in (halves, halves[::-1])]
    of_halves = {"plug_in": _range(counted), "learned_on_others": _range(learned)}
    return {"halvings": HALVINGS, "people": len(people), **of_halves}


def _guessed(learn: np.ndarray, judge: np.ndarray) -> float:
    """The share of the counts ``judge`` (Y, C, Z) that the best guess of z by ``learn`` gets right."""
    # A code that was never seen with this y falls back on P(z|y), added with a weight far below one row.
    prior = learn.sum(axis=1, keepdims=True) / max(learn.sum(), 1.0)
    best = (learn + 1e-6 * prior).argmax(axis=2)[..., None]
    return float(np.take_along_axis(judge, best, axis=2).sum() / judge.sum())


def _range(values: list[float]) -> dict[str, float]:
    return {"mean": float(np.mean(values)), "low": min(values), "high": max(values)}


def _people(dataset: Dataset, halves: Mapping[str, Any] | None) -> str:
    if dataset.cluster_kind == "subject":
        text = "Counted on people whom training never saw, in one split of them"
        if halves is None:
            return f"{text}; other splits were not run."
        counted, learned = (
            f"{100 * halves[name]['low']:.1f} to {100 * halves[name]['high']:.1f} %"
            for name in ("plug_in", "learned_on_others")
        )
        return (
            f"{text}. Over {halves['halvings']} halvings of the people counted the best guess is right {counted} of "
            f"the time on a half, and {learned} where it was learned on the other half. There was one training."
        )
    if dataset.cluster_kind == "session":
        return "Counted on recordings that training never saw, which may be of people that it did."
    return "The data do not say who is who, so people counted may have been in training too."


class CertificateSection(Section):
    """The bound on the average and the bound for every code, of outputs that are functions of one code."""

    name = "certificate"
    order = 5

    def measure(self, about: About, _found: Sequence[Finding]) -> list[Finding]:
        """As ``section``; where there is nothing to certify, why."""
        perturbed, terms = about.perturbed, about.asked
        if isinstance(perturbed.bottleneck, str):
            return [Finding(about.sensitive, AVERAGE, not_run=f"No certificate: {perturbed.bottleneck}.", more=KIND)]
        return section(
            about.dataset,
            perturbed.bottleneck,
            perturbed.outputs,
            of=about.sensitive,
            table=perturbed.table,
            tried=terms.tried,
            looks=about.looks,
            confidence=terms.confidence,
            strata=about.strata,
            seed=about.seed,
            stream=about.subject.manifest.get("stream"),
        )
