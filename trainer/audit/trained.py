"""What the model that ships gives away of the people who trained it: attributes by model inversion, and membership.

The model is the private head where one ships, else the network that decides y. Its attacker holds the bundle. What is
read of people held out is knowledge of the population; only what is read of training people beyond that is a leak of
the training. Where an epsilon is promised, the members that are recognised bound it from below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.columns import slots
from edgeveil.trainer.attacks.model_inversion import Figures, invert, without_model
from edgeveil.trainer.attacks.problem import BUDGETS
from edgeveil.trainer.audit.findings import Finding, answers
from edgeveil.trainer.audit.probes import artefact_membership as probe
from edgeveil.trainer.audit.probes.artefact_membership import Attacked, Logits, Network, Training
from edgeveil.trainer.audit.probes.membership import ASKED, not_run
from edgeveil.trainer.audit.subject import Subject, running
from edgeveil.trainer.audit.text import line
from edgeveil.trainer.datasets.base import Dataset, taken
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.ext import private
from edgeveil.trainer.measures import intervals
from edgeveil.trainer.measures.black_box import one_training
from edgeveil.trainer.measures.intervals import Interval
from edgeveil.trainer.progress import progress
from edgeveil.trainer.runs.run import Head, Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow

SEED = 0
MOST_VALUES, MOST_COLUMNS, MOST_PEOPLE = 10, 12, 2000
MEMBERS, OTHERS, BEYOND = "training people", "people held out", "training people beyond people held out"
ALONE = "without the model"  # the best of the marginal, of y, and of all other attributes with y
FIGURES_EPSILON = 1.0
CONFIDENCE = 0.999  # one sound promise in a thousand may be refused by chance


@dataclass(frozen=True)
class Model:
    """The network that is attacked, in words and in the manifest; in Keras, of what it has ``seen`` (None: the unit
    cube), and how it was trained. ``promise``: epsilon, delta, unit and neighbours of it, None where there is none."""

    words: str
    network: Network
    shipped: Any
    training: Training
    promise: Mapping[str, Any] | None
    seen: Logits | None = None


@dataclass(frozen=True)
class Attribute:
    """Some columns ``at`` of x that hold one attribute: its ``values`` (k, columns), and which one a row has (N,)."""

    name: str
    at: slice
    values: np.ndarray
    codes: np.ndarray


def audit_training(folder: Path, *, seed: int = SEED) -> dict[str, Any]:
    """Attack the model of an export folder for what it gives away of its training people; the document.

    Raises ``BadInput`` where the folder's run is not there or another, or where no network ships that decides y.
    """
    if not folder.is_dir():
        raise BadInput(f"An export folder was expected at {folder}: the attacks need the data of its run.")
    export = ExportFolder.open(folder)
    if export.run is None:
        raise BadInput(f"{folder} is attacked with the data of its run, which is not where export.json names it.")
    manifest, run = export.manifest, Run.open(export.run)
    if run.recipe_sha256() != manifest["provenance"]["recipe_sha256"]:
        raise BadInput(f"The run in {run.folder} has another recipe than {folder} was exported from: export it again.")
    subjects = (Subject(manifest, export.members, name) for name in manifest["preference"])
    subject = next((one for one in subjects if one.compiled_from() is None), None)
    load_tensorflow()
    dataset = run.sample()
    model = None if subject is None else model_of(subject, run, dataset)
    if subject is None or model is None:
        raise BadInput(f"{folder} ships no network that decides {run.recipe.data.target}: there is none to attack.")
    asked = replace(subject, manifest=probe.only_logits(manifest, model.network, len(dataset.y_names)))
    with running(asked, run) as ask:
        findings, why_not = attack(lambda x: ask(x)["logits"], model, dataset, seed)
    promise = None if model.promise is None else {key: model.promise[key] for key in ("epsilon", "delta", "unit")}
    about = {"schema": 1, "name": manifest["name"], "artefact": subject.artefact, "model": model.words, "seed": seed}
    return {**about, "promise": promise, "not_inverted": why_not, "findings": [one.as_json() for one in findings]}


def model_of(subject: Subject, run: Run, dataset: Dataset) -> Model | None:
    """The head where it ships, else the network that decides y; None where there is neither."""
    manifest, recipe = subject.manifest, run.recipe
    stage = next((one for one in manifest["stages"] if one.get("model") == private.HEAD), None)
    if stage is None:
        decided = probe.decider(subject, run, run.classifiers()["target"], dataset)
        if decided is None:
            return None
        claim = private.section(manifest)
        return Model(f"the network {decided[0].model}", *decided, claim if claim and claim["given"] else None)
    head = Head.of_run(run.folder)
    if head is None or head.promise is None:
        raise BadInput(f"The head of this export is not in {run.folder}: export again.")
    import keras

    shape, classes = dataset.input.shape, len(dataset.y_names)
    network = keras.Sequential([keras.Input(shape), keras.layers.Flatten(), keras.layers.Dense(classes)])
    (output, tensor), *_ = stage["outputs"].items()
    budget = recipe.budget
    trained = Training("classifiers", recipe.classifiers.learning_rate, budget.batch, budget.classifier_epochs)
    # Of what is sent, the head's promise is whole only where all that makes it is private.
    whole = head.of == "reading" or private.head_section(manifest, head.mechanism, head.promise)["given"]
    frames = None if head.of == "reading" else run.perturber().frames
    seen = None if frames is None else lambda x: dataset.unit(frames(x))
    words = f"the head ({head.mechanism})"
    return Model(words, Network(private.HEAD, output, tensor), network, trained, head.promise if whole else None, seen)


def attack(logits: Logits, model: Model, dataset: Dataset, seed: int) -> tuple[list[Finding], str]:
    """The findings, and why nothing was inverted ("" where something was). ``logits`` asks the shipped artefact."""
    asked, why_not = attributes(dataset)
    findings: list[Finding] = []
    with progress("attacks on the training", total=len(asked) + 1) as advance:
        advance.begin(ASKED)
        found = probe.attacked(logits, model.shipped, dataset, model.training, BUDGETS["quick"], seed, seen=model.seen)
        if isinstance(found, str):
            findings, asked, why_not = [not_run(one, found) for one in (probe.LOSS, probe.LIRA)], [], found
        else:
            findings = [*found.findings(), *spent(found, model.promise, dataset)]
        advance()
        for one in asked:
            advance.begin(one.name)
            findings += inverted(logits, one, model, dataset, seed, columns=len(asked))
            advance()
    return findings, why_not


# Model inversion


def attributes(dataset: Dataset) -> tuple[list[Attribute], str]:
    """What an attacker may not know: z's own column where x has it, else those of few values; or why there is none."""
    if dataset.input.kind != "vector":
        return [], f"model inversion guesses a column of a table, and these samples are {dataset.input.plural}"
    found = []
    for name, at in _columns(dataset):
        column = dataset.x[:, at]
        flat = column.shape[1] == 1
        values, codes = np.unique(column.ravel() if flat else column, axis=None if flat else 0, return_inverse=True)
        if 2 <= len(values) <= max(MOST_VALUES, len(dataset.z_names)):
            found.append(Attribute(name, at, values.reshape(len(values), -1), codes.reshape(-1)))
    own = [one for one in found if _same(one.codes, dataset.z)]
    few = own[:1] or [one for one in found if len(one.values) <= MOST_VALUES][:MOST_COLUMNS]
    return few, "" if few else f"z is no column of x, and no column of x has 2 to {MOST_VALUES} values"


def _columns(dataset: Dataset) -> Iterator[tuple[str, slice]]:
    """The columns of the table that x was made of, each with its place in x; of other vectors, of their values."""
    (features,) = dataset.input.shape
    if dataset.input.table is None:
        names = dataset.input.features or [f"value {place}" for place in range(features)]
        yield from ((name, slice(place, place + 1)) for place, name in enumerate(names))
        return
    start = 0
    for column in dataset.input.table["columns"]:
        width = len(slots(column))
        yield column["name"], slice(start, start + width)
        start += width


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether these numbers (N,) name the same classes."""
    together = np.unique(np.stack([one, other]), axis=1).shape[1]
    return together == len(np.unique(one)) == len(np.unique(other))


def inverted(
    logits: Logits, asked: Attribute, model: Model, dataset: Dataset, seed: int, columns: int = 1
) -> list[Finding]:
    """How often an attribute is guessed right of training people and of people held out, with and without the model.

    The attacker has y, all other columns, and exact marginals and confusion matrix of the training people; without the
    model, the training slice that this model did not see. ``columns``: so many are asked about, and share 5 %.
    """
    rng, slices = np.random.default_rng([seed, 13]), dataset.slices
    public = slices.perturber if model.training.slice == "classifiers" else slices.classifiers
    members = fit_and_validation(dataset, model.training.slice)[0].index
    groups = members, np.concatenate([slices.attack, slices.test]), public
    mine, theirs, known = (rng.permutation(group)[:MOST_PEOPLE] for group in groups)
    people = dataset.rows(np.concatenate([mine, theirs]))
    sides = {MEMBERS: np.arange(len(mine)), OTHERS: np.arange(len(mine), len(people))}
    codes, k = asked.codes[people.index], len(asked.values)
    said = np.empty((k, len(people)), np.int64)
    for place, value in enumerate(asked.values):
        x = np.array(people.x)
        x[:, asked.at] = value
        said[place] = logits(x).argmax(axis=1)
    own, member = said[codes, np.arange(len(people))], sides[MEMBERS]
    domains, classes = {0: np.arange(k)}, len(dataset.y_names)
    exact = Figures.counted(codes[member, None], people.y[member], own[member], domains=domains, classes=classes)
    noised = exact.noised(FIGURES_EPSILON, lambda counts, scale: counts + rng.laplace(scale=scale, size=len(counts)))
    hits, of_noised = (
        invert(lambda rows: said[int(rows[0, 0])], codes[:, None], people.y, 0, figures, rng) == codes
        for figures in (exact, noised)
    )
    sample, targets = (
        np.column_stack([np.delete(dataset.x[rows], asked.at, axis=1), asked.codes[rows]])
        for rows in (known, people.index)
    )
    last = sample.shape[1] - 1
    alone = without_model((sample, dataset.y[known]), targets, people.y, last, range(last), seed)
    right = {name: guesses == codes for name, guesses in alone.items()}
    best = right[max(right, key=lambda name: right[name].mean())]
    finding, kind = partial(Finding.measured, asked.name, seed=seed), {"kind": "inversion"}
    findings, gains = [], []
    for about, side in sides.items():
        cluster = taken(people.cluster, side)
        more = {**kind, "about": about, **{name: float(one[side].mean()) for name, one in right.items()}}
        with_it = partial(finding, "with the model", rows=len(codes[side]), more=more)
        gains.append(gain(hits[side], best[side], cluster))
        findings.append(with_it("right", intervals.rate(hits[side], cluster), null=float(best[side].mean())))
        findings.append(with_it("difference", gains[-1], null=0.0))
    leaks = bool(less(*gains, wider=intervals.wider(columns)).low > 0)
    text = "more is read of them: a leak of the training" if leaks else "no leak of the training is shown"
    more = {**kind, "about": BEYOND, "found": leaks}
    findings.append(finding("gain", "difference", less(*gains), null=0.0, text=text, more=more))
    cost = intervals.rate(of_noised[member], taken(people.cluster, member))
    more = {**kind, "about": f"{MEMBERS}, by figures of epsilon {FIGURES_EPSILON:g}"}
    return [*findings, finding("noised figures", "right", cost, more=more)]


def gain(with_it: np.ndarray, without: np.ndarray, cluster: np.ndarray | None) -> Interval:
    """How much more often (n,) guesses with the model are right than those without it, on the same people."""
    found = intervals.mean(with_it.astype(float) - without, cluster)
    # Where both guess alike throughout, as seldom as this they may still differ.
    least = intervals.rate(np.zeros(len(with_it)), cluster).high
    low, high = min(found.low, found.estimate - least), max(found.high, found.estimate + least)
    return Interval(found.estimate, max(-1.0, low), min(1.0, high))


def less(one: Interval, other: Interval, *, wider: float = 1.0) -> Interval:
    """The difference of two independent estimates; each half is the root of the squares of those that make it."""
    estimate = one.estimate - other.estimate
    below = wider * np.hypot(one.estimate - one.low, other.high - other.estimate)
    above = wider * np.hypot(one.high - one.estimate, other.estimate - other.low)
    return Interval(estimate, max(-1.0, estimate - below), min(1.0, estimate + above))


# Epsilon from below


def spent(found: Attacked, promise: Mapping[str, Any] | None, dataset: Dataset) -> list[Finding]:
    """What the members that are recognised prove of a ``promise``: epsilon is at least this; nothing without one.

    A member is compared with another unit that chance could have put in its place.
    """
    if promise is None:
        return []
    name, unit, whole = "epsilon that members prove", promise["unit"], dataset.cluster_kind or "row"
    if whole != unit:
        return [not_run(name, f"the promise is about each {unit}, and chance put each {whole} in a slice")]
    gaps = {attack: _gaps(found, score, dataset) for attack, score in found.scores.items()}
    if not len(gaps[probe.LOSS]):
        return [not_run(name, "no slice was left for others that chance could have put in a member's place")]
    confidence = 1 - (1 - CONFIDENCE) / len(gaps)
    swaps = 2 if promise["neighbours"] == "add or remove" else 1
    proved = {attack: one_training(one, promise["delta"], swaps, confidence) for attack, one in gaps.items()}
    best = max(proved, key=lambda attack: proved[attack].epsilon)
    least, holds = proved[best], proved[best].epsilon <= promise["epsilon"]
    text = (
        f"At least this is spent, with {CONFIDENCE:.1%} confidence ({best}: the member of a pair is named in "
        f"{least.one:.1%} of {least.runs:,}); {promise['epsilon']:.4g} is promised"
    )
    text += "." if holds else ": the claim does not hold. Do not ship this, and report it."
    more = {"kind": "probe", "claimed": promise["epsilon"], "holds": holds, "confidence": CONFIDENCE}
    return [Finding(ASKED, name, "epsilon", least.epsilon, rows=len(gaps[best]), text=text, more=more)]


def _gaps(found: Attacked, score: np.ndarray, dataset: Dataset) -> np.ndarray:
    """A member's score less that of another unit, (pairs,): rows by the mean of their unit, pairs at random."""
    rng = np.random.default_rng([SEED, 14])
    # Without [private] chance decides between training slices and `attack`; the test slice may be the data's own.
    fair = found.member | np.isin(found.part.index, dataset.slices.attack) | (dataset.units is not None)
    _, first, place = np.unique(found.unit[fair], return_index=True, return_inverse=True)
    mean = np.bincount(place, score[fair]) / np.bincount(place)
    member = found.member[fair][first]
    # Rows are dealt to slices within each (y, z), units whatever they hold.
    labels = found.part.y * len(dataset.z_names) + found.part.z if dataset.cluster is None else np.zeros(len(fair), int)
    gaps = []
    for label in np.unique(labels):
        here = labels[fair][first] == label
        one, other = (rng.permutation(mean[here & side]) for side in (member, ~member))
        pairs = min(len(one), len(other))
        gaps.append(one[:pairs] - other[:pairs])
    return np.concatenate(gaps)


def as_text(document: Mapping[str, Any]) -> str:
    """The document for a terminal: each question, with what is right without the model, and what the figures cost."""
    found = [Finding.from_json(one) for one in document["findings"]]
    lines = [f"Attacks on the training of {document['model']}, {document['artefact']} of {document['name']}"]
    for question in dict.fromkeys(one.question for one in found):
        lines += [question, *(line(row, ALONE) for row in answers(one for one in found if one.question == question))]
    if document["not_inverted"]:
        return "\n".join([*lines, f"Not inverted: {document['not_inverted']}."])
    cost = (
        "The attacker had exact marginals and the exact confusion matrix of the training people. To publish these is a "
        f"release of its own: for each attribute, epsilon {FIGURES_EPSILON:g} means Laplace noise of scale "
        f"{2 * 2 / FIGURES_EPSILON:g} on every count."
    )
    return "\n".join([*lines, cost])
