"""From a recipe to a run: load the data, train D_y and D_z, fit the perturber, validate it, save it.

The promise of a perturber is here too: what one release costs, by the integers that ship, and what it buys.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.edge_runtime.manifest import stream_bound
from edgeveil.edge_runtime.manifest.spending import MICRO, charged, epsilon_of, repeats
from edgeveil.edge_runtime.stages import kind_of
from edgeveil.edge_runtime.stages.rappor import epsilon_of_one, instantaneous
from edgeveil.trainer.datasets.base import PARTS, Dataset
from edgeveil.trainer.datasets.samples import Stored, gigabytes, require_memory
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.ext import private
from edgeveil.trainer.measures.certificate import shared
from edgeveil.trainer.networks.feeding import on_every_device
from edgeveil.trainer.networks.training import take_own, train_classifiers, train_linear
from edgeveil.trainer.perturbers.adversarial_score import read_too
from edgeveil.trainer.perturbers.base import Goal
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.perturber import either
from edgeveil.trainer.recipe.private import Head
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.recipe.training_sections import Certificate, Spending
from edgeveil.trainer.results import locked
from edgeveil.trainer.runs.checkpoint_score import CheckpointScore, score_checkpoint
from edgeveil.trainer.runs.fitted import HIDES_NOTHING, FittedPerturber, constant, unchanged
from edgeveil.trainer.runs.run import Head as FittedHead
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.runs.tracking import Tracker, begin, tracked
from edgeveil.trainer.tensorflow_quiet import load_tensorflow

_WHAT = {"mean": "the mean, in half ranges,", "share": "a share"}
EXTREMES = "The bounds are extremes of training rows, and they ship: public ones would tell nothing of anybody."


def promised(fitted: FittedPerturber, asked: Spending) -> FittedPerturber:
    """The same perturber with the manifest's ``spending``. Raises ``BadInput`` where one release costs more than a
    unit may spend, or where what is sent is not covered."""
    cost = epsilon_of(fitted.stages, fitted.outputs, fitted.tables)
    if not cost.is_finite():
        raise BadInput("What is sent has no epsilon: a category never comes of another. Leave [spending] out.")
    micro, most = micro_epsilon(cost), int(Decimal(repr(asked.most)) * MICRO)
    if micro > most:
        raise BadInput(
            f"`spending.most`: expected at least what one release costs, {micro / MICRO:g}; got {asked.most:g}."
        )
    claim = {"micro_epsilon": micro, "unit": asked.unit, "most_micro_epsilon": most, "period_s": asked.period_s}
    return replace(fitted, spending=claim)


def micro_epsilon(cost: Decimal) -> int:
    """Steps of 1e-6 epsilon, rounded up."""
    return int((cost * MICRO).to_integral_value(ROUND_CEILING))


def promise_facts(fitted: FittedPerturber, *, from_training: bool) -> dict[str, Any]:
    """What run.json says of a promise, with the error of what a collector estimates; ``spending`` must be there.

    ``from_training``: the bounds are extremes of training rows.
    """
    claim = fitted.spending or {}
    (stage, *_) = charged(fitted.stages, fitted.outputs)
    alpha = claim["micro_epsilon"] / MICRO
    kind, size = kind_of(stage), math.prod(fitted.input.shape)
    values, variance = kind.estimate(stage, fitted.stages, size, alpha, fitted.tables)
    law = instantaneous(fitted.stages)
    return {
        **claim,
        "epsilon": alpha,
        "repeats": repeats(fitted.stages, fitted.outputs),
        **({} if law is None else {"instantaneous_epsilon": epsilon_of_one(law)}),
        "bounds": "from-training" if from_training else "public",
        "of": kind.of,
        "values": values,
        "expected_error": expected_error(variance, values),
    }


# Of a mean or a share that is estimated from locally private reports, before anything is trained. A mechanism's own
# variance of one report is ``edge_runtime.stages.mechanism.Mechanism.variance``.
DEVICES = (1_000, 10_000, 100_000)


def largest_of(d: int) -> float:
    """The mean of the largest of d absolute values of independent standard normal variables."""
    from scipy.special import erf

    t = np.linspace(0.0, 12.0, 24_001)
    return float(np.trapezoid(1 - erf(t / math.sqrt(2)) ** d, t))


def expected_error(variance: float, values: int) -> dict[str, dict[str, float]]:
    """For each number of ``DEVICES`` the standard error of one value and the expected largest error of all."""
    errors = {}
    for n in DEVICES:
        one = math.sqrt(variance / n)
        errors[str(n)] = {"one": float(f"{one:.3g}"), "largest": float(f"{one * largest_of(values):.3g}")}
    return errors


def sentence(found: Mapping[str, Any]) -> str:
    """The expected error in words, for people who are about to train or to collect."""
    what = _WHAT[found["of"]]
    errors = ", ".join(f"{row['one']:g} of {int(n):,}" for n, row in found["expected_error"].items())
    largest = ", ".join(f"{row['largest']:g}" for row in found["expected_error"].values())
    unit, most = found["unit"].replace("release", "device"), found["most_micro_epsilon"] / MICRO
    extremes = f" {EXTREMES}" if found["bounds"] == "from-training" else ""
    one = "One kept answer" if found["repeats"] else "One release"
    again = ", and what is sent of it again nothing" if found["repeats"] else ""
    return (
        f"{one} costs {found['epsilon']:g} epsilon{again}; a {unit} may spend {most:g}. "
        f"Expected error of {what} from the reports of n devices: {errors}; the largest of {found['values']} values: "
        f"{largest}.{extremes}"
    )


def train(
    recipe: Recipe,
    out: Path,
    *,
    budget: str = "full",
    resume: bool = False,
    replace: bool = False,
    classifiers: Path | None = None,
    distribute: bool = False,
    trial: bool = False,
    follower: Tracker | None = None,
) -> Run:
    """Train ``recipe`` in the folder ``out``; the test slice is not used.

    ``classifiers`` is the folder of a run whose D_y and D_z to take: the same data, slices and seed. ``budget`` is
    ``full`` or ``quick`` (``[budget.quick]`` of the recipe). After Ctrl-C the run keeps its last checkpoint, and
    ``resume`` continues from it; ``replace`` gives an earlier run a dated name. Raises ``BadInput``, and
    ``LimitNotMet`` if no checkpoint reaches the recipe's accuracy of y by any reader: the run is then complete, with
    the checkpoint from which y is read best. Under ``quick`` that is only a message. ``distribute``: classifiers, and
    perturbers of a kind that can, train on all devices, each on its share of a batch. ``trial``: ``out`` will be
    gone, so no message names it. ``follower`` is given the run as it trains.
    """
    load_tensorflow()
    # Opened first: if it is missing, no folder must be left behind.
    other = None if classifiers is None else Run.open(classifiers)
    with locked(out, "train"):
        run = Run.create(out, recipe, budget=budget, resume=resume, replace=replace)
        try:
            if run.recipe.private is not None:
                for name in recipe.perturber.private_slices:  # refused before the minutes that it takes
                    private.guarded(run.dataset().for_training(), run.recipe.private, name)
            private.check_head(run.recipe, run.dataset().for_training())
            if other is not None:
                run.adopt_classifiers(other)
            take_own(run)
            if recipe.perturber.files():
                recipe.perturber.check(run.dataset().for_training())
            _in_memory(run)
            begin(run, follower)
        except BadInput:
            if not resume:
                shutil.rmtree(run.folder)
            raise
        try:
            with tracked(run, follower):
                return _train(run, distribute, trial=trial)
        except KeyboardInterrupt:
            run.record(state="interrupted")
            if not trial:
                say(f"Interrupted. The last checkpoint is in {run.folder}; --resume continues from it.")
            raise


UNREAD = ("[private]", "[head]")  # sections that take samples in memory
COPIES = 3  # of samples as float32, that a training in memory has at a time


def _in_memory(run: Run) -> bool:
    """Whether samples that stay on disk must be in memory for ``fit``. Raises ``BadInput`` where they are too many."""
    recipe, dataset = run.recipe, run.dataset().for_training()
    sections = [name for name in UNREAD if getattr(recipe, name[1:-1]) is not None]
    if not isinstance(dataset.x, Stored) or (recipe.perturber.streams and not sections):
        return False
    kind = f'the kind "{recipe.perturber.kind}"{"".join(f" with {name}" for name in sections)}'
    count = f"{len(dataset.x):,} samples of shape {dataset.input.shape}"
    ways = f"one that reads them from disk: {either(lambda one: one.streams)}, without {' and '.join(UNREAD)}"
    cure = f"Take fewer rows with `budget.rows`, or {ways}"
    require_memory(COPIES * dataset.x.nbytes, f"A perturber of {kind} learns from samples in memory, and {count}", cure)
    return True


def _to_fit(run: Run) -> Dataset:
    """All that ``fit`` may see."""
    dataset = run.dataset().for_training()
    return dataset.in_memory() if _in_memory(run) else dataset


def _train(run: Run, distribute: bool = False, *, trial: bool = False) -> Run:
    recipe, terms = run.recipe, run.recipe.certificate or Certificate()
    dataset = run.dataset()
    _describe(dataset)
    recipe.perturber.check(dataset.for_training())
    run.record(state="training")
    with on_every_device(distribute):
        (train_linear if recipe.classifiers.architecture == "linear" else train_classifiers)(run)
    with run.stage("perturber"), on_every_device(distribute and recipe.perturber.distributes):
        fitted = recipe.perturber.fit(
            _to_fit(run),
            goal=Goal(
                recipe.limits,
                recipe.classifiers,
                **run.classifiers(),
                private=recipe.private,
                error=(1 - terms.confidence) / shared(terms.tried),
            ),
            rng=np.random.default_rng([recipe.seed, 1]),
            budget=recipe.budget,
            log=run,
        )
    if recipe.spending is not None:
        fitted = promised(fitted, recipe.spending)
        spending_facts = promise_facts(fitted, from_training=recipe.data.bounds is not None)
        run.record(spending=spending_facts)
        say(sentence(spending_facts))
    elif recipe.data.bounds is not None:
        say(EXTREMES)
    part = run.validation()
    sent = fitted.frames(part.x)
    score = score_checkpoint(
        dataset.unit(part.x), dataset.unit(sent), part.y, part.z, theta=dataset.theta, **run.classifiers()
    )
    score, reader = _best_reader(run, fitted, score, sent)
    missed = _unmet(run, score, reader)
    run.save_perturber(fitted)
    if recipe.head is not None:
        _fit_head(run, fitted)
    through = int(unchanged(dataset.input, part.x, sent).sum())
    facts = {**score.as_dict(), "reader": reader, "rows": len(part), "unchanged": through}
    run.record(state="finished", limit_met=not missed, validation=facts)
    say(
        f"On validation: y is read right {score.kept_accuracy:.3f} (by {reader}), mean distance {score.distance:.2f}, "
        f"Acc(D_z) {score.sensitive_accuracy:.3f} (the commonest z alone {np.bincount(part.z).max() / len(part):.3f}) "
        "against the fixed adversary of its training (non-adaptive; `edgeveil audit` trains adversaries on the output)."
    )
    if not fitted.identity_allowed and through * 2 > (telling := int((~constant(part.x)).sum())):
        say(
            f"{through} of {telling} validation samples come out unchanged: this perturber hides nothing, and "
            f"`edgeveil export` will refuse it. {HIDES_NOTHING}"
        )
    series = recipe.data.series
    live = recipe.capture is not None or (series is not None and series.hop is not None)
    if live and stream_bound.unheld(fitted.stages, fitted.stream):
        say(f"Of a live source: {stream_bound.UNHELD}.")
    if not missed or trial:
        return run
    if run.facts["budget"] == "quick":
        say(f"{missed} The quick budget is a trial, so this is not an error.")
        return run
    target_missed = score.kept_accuracy < recipe.limits.target_accuracy
    raise LimitNotMet(f"{missed} {_advice(recipe, target_missed=target_missed)}")


def _fit_head(run: Run, fitted: FittedPerturber) -> None:
    """Fit [head], unless the run has it: another draw of a resumed run would have to be paid for."""
    section, dataset = cast(Head, run.recipe.head), _to_fit(run)
    head = FittedHead.of_run(run.folder)
    if head is None:
        with run.stage("head"):
            head, facts = private.fit_head(section, dataset, fitted.frames)
        run.record(head=facts)
        head.save(run.folder)
    part = run.validation()
    given = part.x if head.of == "reading" else fitted.frames(part.x)
    right = float((head.predict(dataset.unit(given)) == part.y).mean())
    run.record(head={**run.facts["head"], "validation_accuracy": right})
    rests = f"epsilon {head.promise['epsilon']:g}" if head.promise else "its noise is of a seed, and promises nothing"
    say(f"The head, {head.mechanism} ({rests}), has y right in {right:.3f} of validation. --emit both sends its label.")


def _best_reader(
    run: Run, fitted: FittedPerturber, score: CheckpointScore, sent: np.ndarray
) -> tuple[CheckpointScore, str]:
    """The score with the best reader's accuracy on validation, and what reads best, in words.

    ``sent`` are the perturbed samples of validation. A label that is sent is read as it is; where neither it nor D_y
    meets the recipe's limit, a reader that learns on x' is tried.
    """
    part, floor = run.validation(), run.recipe.limits.target_accuracy
    labels = [output["name"] for output in fitted.outputs if output["kind"] == "label"]
    if labels:
        outputs = fitted.perturb(part.x)
        right = max(float((outputs[name].reshape(-1) == part.y).mean()) for name in labels)
        score = replace(score, reader_accuracy=right)
    if score.kept_accuracy < floor:
        dataset = run.dataset().for_training()
        seen, _ = fit_and_validation(dataset, "perturber")
        trained = read_too(replace(score, reader_accuracy=0.0), floor, dataset, seen, fitted.frames, part, sent)
        if trained.reader_accuracy > score.kept_accuracy:
            return trained, "a reader that learned on what is sent"
    return score, "D_y" if score.target_accuracy >= score.reader_accuracy else "the label that is sent"


def _unmet(run: Run, score: CheckpointScore, reader: str) -> str:
    """The recipe's limits that were not met, in sentences; empty if all were met."""
    limits, missed = run.recipe.limits, []
    if score.kept_accuracy < limits.target_accuracy:
        fixed = "" if reader == "D_y" else f"; D_y {score.target_accuracy:.3f}"
        missed.append(
            f"No checkpoint reached the recipe's accuracy of y, {limits.target_accuracy:.3f}, on validation; the best "
            f"has {score.kept_accuracy:.3f} (by {reader}{fixed}) and is kept in {run.folder}."
        )
    unseen = run.facts.get("unseen_people")
    if unseen and limits.unseen_accuracy is not None and unseen["worst"] < limits.unseen_accuracy:
        missed.append(
            f"On the worst of {unseen['people']} people, each left out of training in turn, the accuracy of y-hat is "
            f"{unseen['worst']:.3f}, and the recipe requires {limits.unseen_accuracy:.3f}: on streams of unseen people "
            "its errors identify them. Add people, more `perturber.copies`, or merge classes."
        )
    return " ".join(missed)


def _advice(recipe: Recipe, *, target_missed: bool) -> str:
    """What to do next, by the keys that this recipe has and what it missed."""
    if recipe.private is not None:
        return (
            "In another folder, take more data, a larger `private.epsilon`, other `private.steps` and "
            "`private.learning_rate`, or a smaller `limits.target_accuracy`."
        )
    perturber = recipe.perturber
    generator = getattr(perturber, "generator", None)
    changes = [] if recipe.classifiers.architecture == "linear" else ["more `budget.classifier_epochs`"]
    if generator is not None:
        changes.append("a smaller `perturber.distance`")
        if generator.clip is None and generator.latent is None:
            changes.append('`perturber.generator.clip = "returns"`')
    if target_missed:
        changes.append("a smaller `limits.target_accuracy`")
    ways = ["train longer, with --resume and a larger `budget.epochs`"] if perturber.own_network else []
    if changes:
        *others, last = changes
        ways.append("in another folder, take " + (f"{', '.join(others)} or {last}" if others else last))
    advice = "; or, ".join(ways)
    return f"{advice[:1].upper()}{advice[1:]}."


USES = {
    "classifiers": "the classifiers",
    "perturber": "the perturber",
    "attack": "adversaries alone",
    "test": "the test",
}


def _describe(dataset: Dataset) -> None:
    parts = [f"{len(dataset.part(name)):,} for {USES[name]}" for name in PARTS if len(dataset.part(name))]
    unit_note = f", whole {dataset.cluster_kind}s" if dataset.cluster_kind else ""
    say(
        f"{dataset.name}: {dataset.input.plural} of shape {dataset.input.shape}, {len(dataset.y_names)} classes of y, "
        f"{len(dataset.z_names)} of z; rows: {', '.join(parts)}{unit_note}"
    )
    if isinstance(dataset.x, Stored):
        few = len(fit_and_validation(dataset, "perturber")[1])
        size = gigabytes(dataset.x.size * dataset.x.dtype.itemsize)
        say(f"The samples, {size}, stay on disk; what is trained is judged on {few:,} rows of validation.")
