"""The audit of what ships: open it, perturb every slice with it, and attack the outputs; the same for label-only."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.findings import Row
from edgeveil.trainer.attacks.problem import BUDGETS, Budget, Problem, Released
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.attacks.registry import adversaries, meant_for
from edgeveil.trainer.attacks.rows import places
from edgeveil.trainer.audit import card, code_histogram, head_spending, probes, training_spending
from edgeveil.trainer.audit.document import NOT_COVERED, SCHEMA, environment, interval, kept_answers
from edgeveil.trainer.audit.floor import Floor, examine, named_by, raw_rates
from edgeveil.trainer.audit.frozen import open_target
from edgeveil.trainer.audit.probes import artefact_membership, odds
from edgeveil.trainer.audit.probes.answer import not_run
from edgeveil.trainer.audit.probes.artefact_membership import Training
from edgeveil.trainer.audit.sections import (
    board_section,
    certificate_section,
    linear_section,
    pufferfish,
    retained,
    spending_section,
    streams,
    what_else,
)
from edgeveil.trainer.audit.sections.board_section import OnBoard
from edgeveil.trainer.audit.sections.certificate_section import strata_of
from edgeveil.trainer.audit.subject import KERAS, Perturbed, Subject, perturb_rows, running, track_perturber
from edgeveil.trainer.audit.verdict import judge
from edgeveil.trainer.datasets.base import PARTS, Dataset, InputSpec
from edgeveil.trainer.ext import private
from edgeveil.trainer.graphs.prediction import asked_once, predict
from edgeveil.trainer.interrupts import whole_steps
from edgeveil.trainer.linear import LinearSection
from edgeveil.trainer.measures import intervals
from edgeveil.trainer.progress import progress
from edgeveil.trainer.recipe.training_sections import Certificate
from edgeveil.trainer.runs.run import Head, Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow

# The rows of membership for an attacker who holds what is audited: the network that decides y, asked as it ships.


NAME = "membership from the artefact"


def rows(subject: Subject, run: Run, dataset: Dataset, target: Any, budget: Budget, seed: int) -> list[dict[str, Any]]:
    """None of a bundle without networks. ``target`` is D_y, of which label-only may send what it says itself."""
    import keras

    if not subject.manifest["models"]:
        return []
    found = artefact_membership.network(subject.manifest, private.HEAD)
    if found is not None:
        model = run.perturber().models[found.model]
        logits = model.outputs[model.output_names.index(found.output)]
    if found is None or logits.shape[-1] != len(dataset.y_names):
        return [not_run(NAME, f"no network of it decides {run.recipe.data.target}, whose logits this attack reads")]
    shipped = keras.Model(model.inputs[0], logits)
    training = _as_trained(run, itself=_same_weights(model, target))
    attack = artefact_membership.run
    if subject.artefact == KERAS:
        return attack(lambda x: predict(shipped, dataset.unit(x)), shipped, dataset, training, budget, seed)
    manifest = artefact_membership.only_logits(subject.manifest, found, len(dataset.y_names))
    with running(replace(subject, manifest=manifest), run) as ask:
        return attack(lambda x: ask(x)["logits"], shipped, dataset, training, budget, seed)


def _as_trained(run: Run, *, itself: bool) -> Training:
    """How the network was trained; ``itself``: it is D_y."""
    recipe = run.recipe
    settings = recipe.classifiers.learning_rate, recipe.budget.batch
    if itself:
        return Training("classifiers", *settings, recipe.budget.classifier_epochs)
    if (private := recipe.private) is not None:
        epochs = max(1, round(private.steps * private.lot / run.facts["private"]["units"]))
        return Training("perturber", private.learning_rate, private.lot, epochs)
    return Training("perturber", *settings, recipe.budget.epochs)


def _same_weights(one: Any, other: Any) -> bool:
    mine, theirs = one.get_weights(), other.get_weights()
    return len(mine) == len(theirs) and all(map(np.array_equal, mine, theirs))


# The ``head`` section of an audit: how well the head's label tells y, and what its fit promises.


def head_section(
    manifest: Mapping[str, Any], run: Path, dataset: Dataset, outputs: Mapping[str, np.ndarray]
) -> dict[str, Any] | None:
    """None where no head's label is among the ``outputs`` (n, ...) of the rows of all slices.

    ``run`` is the folder of the run. Raises ``BadInput`` where the head that was exported is no longer there.
    """
    if private.HEAD not in outputs:
        return None
    head = Head.of_run(run)
    if head is None or head.promise is None:
        raise BadInput(f"The head of this export is not in {run}: export again.")
    test = dataset.part("test")
    right = intervals.rate(outputs[private.HEAD][places(dataset).test] == test.y, test.cluster)
    return {"of": head.of, "target": interval(right), **private.head_section(manifest, head.mechanism, head.promise)}


# The main part, described by the docstring.


LABEL_ONLY_ROWS = 12_000
Families = Callable[[Problem], tuple[Adversary, ...]]


def audit(
    folder_or_bundle: Path,
    *,
    run: Path | None = None,
    artefact: str = "tflite-int8",
    budget: str = "quick",
    seed: int = 0,
    trust: Path | None = None,
    label_only: Mapping[str, Any] | None = None,
    tried: int | None = None,
    there: OnBoard | None = None,
    cache: Path | None = None,
    resume: bool = False,
    spending: bool = False,
) -> dict[str, Any]:
    """Attack one artefact of an export folder, or of a sealed bundle (then ``run`` and ``trust`` are needed).

    ``artefact`` is a name like ``tflite-int8``, or ``keras`` for the run's own networks (for comparison; they never
    ship). ``budget`` is ``quick`` or ``thorough``, ``seed`` the first of its seeds. ``label_only`` is that part of an
    earlier document of the same run, budget and seed, where it need not be measured again. ``tried`` configurations
    were ever compared on these test rows (default: what the recipe says): they share the certificate's confidence.
    ``there`` holds a board's outputs for the test rows (``audit_on_board``): these are attacked in place of those made
    here, and the document has a section ``on_board``. ``cache`` is the folder of perturbed rows, ``RUN/audit-cache``
    where it is None. There an attack's answers are kept as it ends, until the audit is done; ``resume`` takes those
    that an interrupted audit of the same bytes, budget and seed left, and without it such an audit is not begun again.
    ``spending``: what [private] promises of the training is measured too, by running its mechanisms.
    Returns the document of docs/reference/schemas/audit.schema.json; writes nothing but that cache.
    Raises ``BadInput`` where the inputs do not fit together, ``DeviceFailed`` where no backend runs the artefact.
    """
    begun, started = time.monotonic(), datetime.now(timezone.utc)
    if budget not in BUDGETS:
        raise BadInput(f"An audit budget is one of {', '.join(BUDGETS)}; got {budget!r}.")
    opened = open_target(Path(folder_or_bundle), run=run, trust=trust, artefact=artefact)
    load_tensorflow()
    if spending and "private" not in opened.run.facts:
        raise BadInput("--spending measures what a training under [private] spends; this run promises nothing of it.")
    asked = opened.run.recipe.certificate or Certificate(tried=1)
    asked = asked if tried is None else asked.model_copy(update={"tried": tried})
    dataset = opened.run.dataset()
    strata = strata_of(dataset, asked.strata)  # raises, before the slow part, where they do not fit the data
    classifiers = opened.run.classifiers()
    at = cache or opened.run.folder / "audit-cache"
    tries = BUDGETS[budget]
    families = meant_for(adversaries(), dataset.input.kind)
    floor = Floor(dataset, classifiers, tries, seed, named_by(opened.run), at / "label-only")
    kept = at / _name(opened.subject, there, budget, seed)
    with (
        kept_answers(kept, resume=resume) as journal,
        whole_steps() as check,
        asked_once(*classifiers.values()),
        contextlib.nullcontext() if label_only else floor.measured_beside(opened.run) as floor_is_there,
        progress(f"audit of {opened.subject.artefact}", total=len(families) + 4) as advance,
    ):

        def begin(attack: str) -> None:
            check()  # the attack before is kept
            advance.begin(attack)

        journal.begins = begin
        tries = replace(tries, journal=journal)
        about = _Audit(opened.subject, opened.run, dataset, classifiers, tries, seed, asked, strata, there, spending)

        def done(found: Sequence[Row]) -> None:
            figures = {"right": found[0].accuracy} if found else {}
            advance(**figures)

        elsewhere = None if there is None else there.rows.outputs
        rows = dataset.slices.rows()
        advance.begin("perturbing")
        perturbed = perturb_rows(opened.subject, opened.run, dataset, rows, elsewhere=elsewhere, cache=cache)
        advance()
        found = examine(dataset, perturbed.released, classifiers, tries, seed, done)
        what = what_else.section(dataset, perturbed.released, tries, seed, of_z=found.most_bits)
        advance()
        if floor_is_there is not None:
            advance.begin("label-only")
            floor_is_there()
            label_only = floor.document(begin)
        advance()
        floor.recall()
        advance.begin("certificate and probes")
        sections = about.sections(perturbed)
        raw = raw_rates(dataset, classifiers)
        advance()

    versions, machine = environment()
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": "edgeveil-audit",
        "created": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        **about.description(perturbed),
        **found.as_dict(),
        "what_else": what,
        "raw": raw,
        "label_only": dict(label_only or {}),
        **sections,
        "not_covered": [*NOT_COVERED, *(() if there is None else board_section.NOT_THERE)],
        "budget": budget,
        "seed": seed,
        "versions": versions,
        "machine": machine,
        "wall_time_s": round(time.monotonic() - begun, 1),
    }
    asked_of = card.limits_of(opened.run.recipe.limits)
    for part in (document, document["label_only"]):
        part["verdict"] = judge(part, asked_of, document["data"])
    return {**document, "limits": card.check(opened.run.recipe.limits, document["verdict"])}


def _name(subject: Subject, there: OnBoard | None, budget: str, seed: int) -> str:
    """A folder's name for the answers of one audit. Raises ``BadInput`` for an artefact that was not exported."""
    if subject.artefact != KERAS:
        subject.sha256()
    pipeline = subject.artefact if subject.artefact == KERAS else subject.pipeline_sha256()[:16]
    return f"attacks-{pipeline}-{budget}-{seed}{'' if there is None else '-on-board'}"


@dataclass(frozen=True)
class _Audit:
    """What is audited, with which data and classifiers, how hard, and what was asked of the certificate."""

    subject: Subject
    run: Run
    dataset: Dataset
    classifiers: Mapping[str, Any]
    budget: Budget
    seed: int
    asked: Certificate
    strata: np.ndarray | None
    there: OnBoard | None
    spending: bool

    def description(self, perturbed: Perturbed) -> dict[str, Any]:
        """The document's part that says what was audited, on which data."""
        subject, dataset = self.subject, self.dataset
        described, test = subject.manifest["perturber"], dataset.part("test")
        ships = subject.artefact != KERAS
        units = None if test.cluster is None else len(np.unique(test.cluster))
        return {
            "artefact": subject.artefact,
            "speaks_of": {subject.artefact: subject.sha256()} if ships else {},
            "pipeline": {subject.artefact: subject.pipeline_sha256()} if ships else {},
            "backends": dict(perturbed.backends if self.there is None else self.there.rows.ran["backends"]),
            "perturber": described["kind"],
            "data": {
                "name": dataset.name,
                "target": described["target"],
                "sensitive": described["sensitive"],
                "y_classes": int(dataset.theta.shape[0]),
                "z_classes": int(dataset.theta.shape[1]),
                "counts": _counts(test.y, test.z, dataset.theta.shape[0]),
                "rows": {name: len(dataset.part(name)) for name in PARTS},
                "clusters": None if units is None else {"kind": dataset.cluster_kind, "test": units},
                **_sampling(dataset.input),
            },
            "intervals": "Wilson" if units is None else f"Wilson on the effective number of {dataset.cluster_kind}s",
        }

    def sections(self, perturbed: Perturbed) -> dict[str, Any]:
        """The sections that need no adversaries of z: each asks another question of the outputs."""
        dataset, released = self.dataset, perturbed.released
        found: dict[str, Any] = {}
        if self.run.recipe.perturber.unbounded:
            section = cast(LinearSection, self.run.recipe.perturber)
            found["predictors"] = linear_section.predictors(section, dataset, released.x, seed=self.seed)
        found["certificate"] = self._certificate(perturbed)
        if self.there is None:
            found["histogram"] = self._histogram(perturbed)
        frames = released.x[places(dataset).test]
        found["spending"] = self._spending()
        if (training := private.section(self.subject.manifest)) is not None:
            found["training"] = training
        head = head_section(self.subject.manifest, self.run.folder, dataset, perturbed.outputs)
        if head is not None:
            found["head"] = head
        if self.spending:
            self._measure_training(found)
        found["diagnostic"] = pufferfish.section(dataset, frames, self.classifiers["sensitive"])
        found["collateral"] = self._retained(released)
        found["probes"] = probes.run_all(released, dataset, dataset.slices.rows(), self.budget, self.seed)
        target = self.classifiers["target"]
        if self.there is not None:
            found["on_board"] = board_section.section(self.there, self.subject, dataset, perturbed, target)
            found["probes"]["membership"] = [not_run("membership", board_section.MEMBERSHIP)]
            return found
        found["probes"]["membership"] += rows(self.subject, self.run, dataset, target, self.budget, self.seed)
        if self.subject.manifest.get("stream") is not None:
            found["streams"] = self._streams()
        return found

    def _certificate(self, perturbed: Perturbed) -> dict[str, Any]:
        if isinstance(perturbed.bottleneck, str):
            return certificate_section.refused(perturbed.bottleneck)
        return certificate_section.section(
            self.dataset,
            perturbed.bottleneck,
            perturbed.outputs,
            table=perturbed.table,
            tried=self.asked.tried,
            confidence=self.asked.confidence,
            strata=self.strata,
            seed=self.seed,
            stream=self.subject.manifest.get("stream"),
        )

    def _histogram(self, perturbed: Perturbed) -> dict[str, Any] | None:
        manifest = self.subject.manifest
        with running(self.subject, self.run) as perturb:
            return code_histogram.section(manifest, perturbed.outputs, self.dataset, perturb)

    def _measure_training(self, found: dict[str, Any]) -> None:
        """Adds to the sections ``training`` and ``head`` what their mechanisms spend by running them."""
        facts, head, section = self.run.facts, found.get("head"), self.run.recipe.head
        rows = training_spending.measured(facts["private"], others=int(head is not None))
        found["training"]["measured"] = rows
        if head is not None and section is not None:
            confidence, classes = training_spending.shared(len(rows) + 1), len(self.dataset.y_names)
            head["measured"] = head_spending.measured(facts["head"], section, classes, confidence)

    def _spending(self) -> dict[str, Any] | None:
        fitted = self.run.perturber() if self.subject.artefact == KERAS else None
        manifest = self.subject.manifest if fitted is None else fitted.description()
        tables = self.subject.tables() if fitted is None else dict(fitted.tables)
        found = spending_section.section(manifest, tables, from_training=self.run.recipe.data.bounds is not None)
        if found is None or self.there is not None or manifest.get("stream") is not None:
            return found
        with running(self.subject, self.run) as perturb:
            return {**found, "measured": odds.at_least(perturb, self.dataset)}

    def _retained(self, released: Released) -> dict[str, Any] | None:
        if not any(output["kind"] == "frame" or "decoder" in output for output in self.subject.manifest["outputs"]):
            return None
        return retained.section(self.dataset, released.x, self.budget.name, self.seed, named=named_by(self.run))

    def _streams(self) -> dict[str, Any]:
        perturb = track_perturber(self.subject, self.run)
        stream, tried = self.subject.manifest["stream"], self.asked.tried
        return streams.section(stream, self.dataset, perturb, trees=self.budget.trees, seed=self.seed, tried=tried)


def _sampling(spec: InputSpec) -> dict[str, Any]:
    """What a series is windows of; nothing of other kinds."""
    if spec.series is None:
        return {}
    facts = spec.as_json()["series"]
    return {"series": {"steps": spec.shape[0], **facts}}


def _counts(y: np.ndarray, z: np.ndarray, classes: int) -> list[list[int]]:
    """For each y how many rows (n,) have each z, most frequent first: which z is which stays out of the document."""
    return [sorted(np.unique(z[y == k], return_counts=True)[1].tolist(), reverse=True) for k in range(classes)]
