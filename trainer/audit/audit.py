"""The audit of what ships: open it, perturb every slice with it, attack it, and attack label-only beside it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.families.fixed import masked
from edgeveil.trainer.attacks.families.networks import logits
from edgeveil.trainer.attacks.problem import BUDGETS, Budget, Problem, Released, cut
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.attacks.registry import adversaries
from edgeveil.trainer.attacks.run_all import Done, Row, attack_all
from edgeveil.trainer.audit import limits, probes
from edgeveil.trainer.audit import subject as perturbing
from edgeveil.trainer.audit.document import NOT_COVERED, SCHEMA, Audited, environment, interval
from edgeveil.trainer.audit.open import open_target
from edgeveil.trainer.audit.probes.answer import not_run
from edgeveil.trainer.audit.sections import (
    board_section,
    certificate_section,
    linear_section,
    pufferfish,
    retained,
    streams,
)
from edgeveil.trainer.audit.sections.board_section import OnBoard
from edgeveil.trainer.audit.sections.certificate_section import strata_of
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.measures import attack_metrics, intervals
from edgeveil.trainer.progress import progress
from edgeveil.trainer.recipe.schema import Certificate
from edgeveil.trainer.tensorflow_quiet import load_tensorflow

LABEL_ONLY_ROWS = 12_000


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
) -> dict[str, Any]:
    """Attack one artefact of an export folder, or of a sealed bundle (then ``run`` and ``trust`` are needed).

    ``artefact`` is a name like ``tflite-int8``, or ``keras`` for the run's own networks (for comparison; they never
    ship). ``budget`` is ``quick`` or ``thorough``, ``seed`` the first of its seeds. ``label_only`` is that part of an
    earlier document of the same run, budget and seed, where it need not be measured again. ``tried`` configurations
    were ever compared on these test rows (default: what the recipe says): they share the certificate's confidence.
    ``there`` is what a board made of the test rows (``audit_on_board``): that is attacked in the place of what is made
    here, and the document has a section ``on_board``.
    Returns the document of docs/reference/schemas/audit.schema.json; writes nothing but the cache of perturbed rows in
    ``RUN/audit-cache``.
    Raises ``BadInput`` for anything that does not fit together, ``DeviceFailed`` where no backend runs the artefact.
    """
    begun, started = time.monotonic(), datetime.now(timezone.utc)
    if budget not in BUDGETS:
        raise BadInput(f"An audit budget is one of {', '.join(BUDGETS)}; got {budget!r}.")
    tries = BUDGETS[budget]
    opened = open_target(Path(folder_or_bundle), run=run, trust=trust, artefact=artefact)
    load_tensorflow()
    subject, recipe = opened.subject, opened.run.recipe
    artefact = subject.artefact
    dataset, classifiers = opened.run.dataset(), opened.run.classifiers()
    described: Mapping[str, Any] = subject.manifest["perturber"]
    asked = recipe.certificate or Certificate(tried=1)
    strata = strata_of(dataset, asked.strata)  # before the slow part

    # Under a trial budget the slices hold only some of the rows.
    rows = dataset.slices.rows()
    parts = (len(adversaries()) + 2) * (1 if label_only else 2)
    with progress(f"audit of {artefact}", total=parts) as advance:

        def done(found: Sequence[Row]) -> None:
            figures = {"right": found[0].accuracy} if found else {}
            advance(**figures)

        elsewhere = None if there is None else there.rows.outputs
        perturbed = perturbing.through(subject, opened.run, dataset, rows, elsewhere=elsewhere)
        left = perturbed.released
        advance()
        section: dict[str, Any] = {}
        if described["kind"] in linear_section.KINDS:
            section["predictors"] = linear_section.predictors(recipe, dataset, left.x, seed=seed)
        stream = subject.manifest.get("stream")
        section["certificate"] = certified(dataset, perturbed, asked, strata, tried, seed, stream)
        frames = left.x[-len(dataset.slices.test) :]
        section["diagnostic"] = pufferfish.section(dataset, frames, classifiers["sensitive"])
        section["collateral"] = None
        if any(output["kind"] == "frame" for output in subject.manifest["outputs"]):
            named = tuple(getattr(recipe.perturber, "keep", ()))
            section["collateral"] = retained.section(dataset, left.x, budget, seed, named=named)
        section["probes"] = probes.run_all(left, dataset, rows, tries, seed)
        if there is not None:
            section["on_board"] = board_section.section(there, subject, dataset, perturbed, classifiers["target"])
            section["probes"]["membership"] = [not_run("membership", board_section.MEMBERSHIP)]
        elif stream is not None:
            along = perturbing.along_tracks(subject, opened.run)
            section["streams"] = streams.section(
                stream, dataset, along, trees=tries.trees, seed=seed, tried=tried or asked.tried
            )
        advance()
        found = examine(dataset, left, classifiers, tries, seed, done)

        if label_only is None:
            label_only = measured_label_only(dataset, rows, classifiers, tries, seed, done)

    versions, machine = environment()
    test = dataset.part("test")
    ships = artefact != perturbing.KERAS
    document = {
        "schema": SCHEMA,
        "kind": "edgeveil-audit",
        "created": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "artefact": artefact,
        "speaks_of": {artefact: subject.sha256()} if ships else {},
        "pipeline": {artefact: subject.pipeline_sha256()} if ships else {},
        "backends": dict(perturbed.backends if there is None else there.rows.ran["backends"]),
        "perturber": described["kind"],
        "data": {
            "name": dataset.name,
            "target": described["target"],
            "sensitive": described["sensitive"],
            "y_classes": int(dataset.theta.shape[0]),
            "z_classes": int(dataset.theta.shape[1]),
            "rows": {name: len(dataset.part(name)) for name in ("classifiers", "perturber", "test")},
            "clusters": None
            if test.cluster is None
            else {"kind": dataset.cluster_kind, "test": len(np.unique(test.cluster))},
        },
        **found.as_dict(),
        "raw": raw_rates(dataset, classifiers),
        "label_only": dict(label_only),
        **section,
        "intervals": "Wilson" if test.cluster is None else f"Wilson on the effective number of {dataset.cluster_kind}s",
        "not_covered": [*NOT_COVERED, *(() if there is None else board_section.NOT_THERE)],
        "budget": budget,
        "seed": seed,
        "versions": versions,
        "machine": machine,
        "wall_time_s": round(time.monotonic() - begun, 1),
    }
    return {**document, "limits": limits.check(recipe.limits, document)}


def certified(
    dataset: Dataset,
    perturbed: perturbing.Perturbed,
    asked: Certificate,
    strata: np.ndarray | None,
    tried: int | None,
    seed: int,
    stream: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The certificate's section, or why there is none; ``tried`` goes before the recipe's."""
    if isinstance(perturbed.funnel, str):
        return certificate_section.refused(perturbed.funnel)
    return certificate_section.section(
        dataset,
        perturbed.funnel,
        perturbed.outputs,
        table=perturbed.table,
        tried=asked.tried if tried is None else tried,
        confidence=asked.confidence,
        strata=strata,
        seed=seed,
        stream=stream,
    )


def measured_label_only(
    dataset: Dataset, rows: np.ndarray, classifiers: Mapping[str, Any], budget: Budget, seed: int, done: Done
) -> dict[str, Any]:
    """The same adversaries against the predicted y and nothing else: the floor every perturber is held against."""
    from edgeveil.trainer.perturbers.label_only import from_classifier

    floor = from_classifier(dataset.for_training(), classifiers["target"])
    outputs = perturbing.in_chunks(floor.perturb, dataset.x[rows])
    done([])
    left = perturbing.releases(floor.outputs, outputs, dataset, rows)
    useful = retained.beside(dataset, left.x, outputs["label"], budget.name, seed)
    done([])
    # Its x' takes no more values than y has: a few thousand rows say all there is.
    fewer = replace(budget, rows=min(budget.rows, LABEL_ONLY_ROWS))
    return {**examine(dataset, left, classifiers, fewer, seed, done).as_dict(), "collateral": useful}


def examine(
    dataset: Dataset,
    left: Released,
    classifiers: Mapping[str, Any],
    budget: Budget,
    seed: int,
    done: Done,
    *,
    families: tuple[Adversary, ...] | None = None,
) -> Audited:
    """Every adversary (or ``families``) against what ``left`` for the rows of the three slices, in their order; and
    D_y on it."""
    first_two = len(left) - len(dataset.slices.test)
    seen, test = left.take(np.arange(first_two)), left.take(np.arange(first_two, len(left)))
    training = np.concatenate([dataset.slices.classifiers, dataset.slices.perturber])
    seen = replace(seen, raw=dataset.x[training])  # an attacker who has the perturber has the readings put into it
    clean = dataset.part("classifiers")
    fit, stop, choose = cut(seen, seed)
    problem = Problem(
        input=dataset.input,
        theta=dataset.theta,
        counted=attack_metrics.counted_prior(seen.y, seen.z, dataset.theta.shape),
        fit=fit,
        stop=stop,
        choose=choose,
        test=test,
        budget=budget,
        clean=Released(clean.x, clean.y, clean.z, clean.cluster),
        sensitive=classifiers["sensitive"],
    )
    right = logits(classifiers["target"], dataset.unit(test.x)).argmax(axis=1) == test.y
    return Audited(intervals.rate(right, test.cluster), attack_all(problem, seed=seed, done=done, families=families))


def raw_rates(dataset: Dataset, classifiers: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """How often D_y and D_z (given y) are right on raw test readings: what there was to keep, and to hide."""
    test = dataset.part("test")
    target = logits(classifiers["target"], dataset.unit(test.x)).argmax(axis=1) == test.y
    answers = masked(logits(classifiers["sensitive"], dataset.unit(test.x)), dataset.theta[test.y])
    return {
        "target": interval(intervals.rate(target, test.cluster)),
        "sensitive": interval(intervals.rate(answers.argmax(axis=1) == test.z, test.cluster)),
    }
