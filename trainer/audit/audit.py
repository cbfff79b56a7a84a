"""The audit of what ships: open it, perturb every slice with it, and attack the outputs; the same for label-only."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.attacks.ahead import ahead, at_most
from edgeveil.trainer.attacks.findings import done_by
from edgeveil.trainer.attacks.problem import BUDGETS
from edgeveil.trainer.attacks.registry import adversaries, meant_for
from edgeveil.trainer.audit.document import NOT_COVERED, Making, kept_answers
from edgeveil.trainer.audit.findings import RAW, Finding
from edgeveil.trainer.audit.floor import Floor, examine, named_by, raw_rates
from edgeveil.trainer.audit.frozen import Opened, open_target
from edgeveil.trainer.audit.probes import probes
from edgeveil.trainer.audit.sections import About, Section, board_section, other_attributes, sections
from edgeveil.trainer.audit.sections.board_section import OnBoard
from edgeveil.trainer.audit.sections.certificate_section import strata_of
from edgeveil.trainer.audit.subject import KERAS, Subject, perturb_rows
from edgeveil.trainer.audit.verdict import held_to, judge, limits_of
from edgeveil.trainer.child_processes import Engine
from edgeveil.trainer.datasets.base import PARTS
from edgeveil.trainer.datasets.ranges import EXTREMES
from edgeveil.trainer.datasets.slicing import sampled
from edgeveil.trainer.graphs.prediction import asked_once
from edgeveil.trainer.interrupts import whole_steps
from edgeveil.trainer.measures.intervals import Interval
from edgeveil.trainer.progress import progress, say
from edgeveil.trainer.recipe.training_sections import Certificate
from edgeveil.trainer.results import looks_before, own_folder
from edgeveil.trainer.tensorflow_quiet import load_tensorflow


def audit(
    folder_or_bundle: Path,
    *,
    run: Path | None = None,
    artefact: str = "tflite-int8",
    budget: str = "quick",
    seed: int = 0,
    trust: Path | None = None,
    label_only: Sequence[Mapping[str, Any]] | None = None,
    tried: int | None = None,
    looks: int | None = None,
    there: OnBoard | None = None,
    cache: Path | None = None,
    spending: bool = False,
    jobs: int | None = None,
    engine: Engine = "processes",
) -> dict[str, Any]:
    """Attack one artefact of an export folder, or of a sealed bundle (then ``run`` and ``trust`` are needed).

    ``artefact`` is a name like ``tflite-int8``, or ``keras`` for the run's own networks (for comparison; they never
    ship). ``budget`` is ``quick`` or ``thorough``, ``seed`` the first of its seeds. ``label_only`` are the findings
    about it of an earlier document of the same run, budget and seed (``findings.about_label_only``), where they need
    not be measured again. ``tried`` configurations
    were ever compared on these test rows (default: what the recipe says): they share the certificate's confidence, and
    so do all that ``looks`` other audits of these rows may have led to (default: those of this user, which
    ``results.looks_before`` counts).
    ``there`` holds a board's outputs for the test rows (``audit_on_board``): these are attacked in place of those made
    here, and the document has a section ``on_board``. ``cache`` is the folder of perturbed rows, ``own_folder``
    where it is None. There an attack's answers are kept as it ends, until the audit is done, and
    those that an interrupted audit of the same bytes, budget and seed left are taken.
    ``spending``: what [private] promises of the training is measured too, by running its mechanisms.
    ``jobs`` families learn at a time, each in a process of its own, or on a Ray cluster (``engine``); the document is
    the same for any number. None: one after the other in this process, whose networks may use several threads, so that
    their figures can differ in the last digits.
    Returns the document of docs/reference/schemas/audit.schema.json; writes nothing but that cache and the look.
    Raises ``BadInput`` where the inputs do not fit together, ``DeviceFailed`` where no backend runs the artefact.
    """
    making = Making("edgeveil-audit", budget, seed)
    opened = open_target(Path(folder_or_bundle), run=run, trust=trust, artefact=artefact)
    load_tensorflow()
    if spending and "private" not in opened.run.facts:
        raise BadInput("--spending measures what a training under [private] spends; this run promises nothing of it.")
    terms = opened.run.recipe.certificate or Certificate(tried=1)
    terms = terms if tried is None else terms.model_copy(update={"tried": tried})
    dataset, whole = opened.run.sample(), opened.run.dataset()
    if some := sampled(dataset, whole):
        say(
            f"The samples stay on disk, and the audit takes some rows of each slice, by the seed of the recipe: {some}."
        )
    strata = strata_of(dataset, terms.strata)  # raises, before the slow part, where they do not fit the data
    classifiers = opened.run.classifiers()
    at = cache or own_folder(opened.run.folder)
    tries = BUDGETS[budget]
    families = meant_for(adversaries(), dataset.input.kind)
    described = opened.subject.manifest["perturber"]
    y, z = described["target"], described["sensitive"]
    floor = Floor(dataset, classifiers, tries, seed, named_by(opened.run), y, z, at / "label-only")
    jobs = None if jobs is None else at_most(jobs, dataset.x.size)
    answers_folder = at / _name(opened.subject, there, budget, seed)
    looks = _looks(opened) if looks is None else looks
    with (
        kept_answers(answers_folder) as journal,
        whole_steps() as check,
        asked_once(*classifiers.values()),
        ahead(jobs, journal, check, engine=engine) as others,
        progress(f"audit of {opened.subject.artefact}", total=len(families) + 4) as advance,
    ):
        floor_is_there = None if label_only else floor.begun(opened.run, others)

        def begin(attack: str) -> None:
            check()  # the attack before is kept
            advance.begin(attack)

        journal.begins = begin
        tries = replace(tries, journal=journal)
        done = done_by(advance)
        elsewhere = None if there is None else there.rows.outputs
        rows = dataset.slices.rows()
        advance.begin("perturbing")
        perturbed = perturb_rows(opened.subject, opened.run, dataset, rows, elsewhere=elsewhere, cache=at)
        about = About(
            *(opened.subject, opened.run, dataset, classifiers, tries, seed, terms, strata, there, spending, perturbed),
            looks=looks,
        )
        advance()
        answers: dict[str, list[Finding]] = {}
        if others is not None:
            others.meanwhile += _not_last(about, answers)
        audited = examine(dataset, perturbed.released, classifiers, tries, seed, done, labels=perturbed.labels)
        what = other_attributes.section(dataset, perturbed.released, tries, seed, of_z=audited.attacks)
        advance()
        if floor_is_there is not None:
            advance.begin("label-only")
            floor_is_there()
            label_only = floor.document(begin)
        advance()
        floor.recall()
        advance.begin("certificate and probes")
        measured, keys = _sections(replace(about, attack=audited.most_bits), answers)
        raw = _raw(raw_rates(dataset, classifiers), y, z)
        advance()

    all_findings = [*audited.findings(y, z), *what, *measured]
    document: dict[str, Any] = {
        **making.fields(),
        **_description(about),
        "findings": [*(one.as_json() for one in all_findings), *(label_only or ()), *(one.as_json() for one in raw)],
        "warnings": [*audited.found.warnings, *_shipped(about)],
        **keys,
        "not_covered": [*NOT_COVERED, *(() if there is None else board_section.NOT_THERE)],
    }
    limits = opened.run.recipe.limits
    document["verdict"] = judge(document, limits_of(limits))
    return {**document, "limits": held_to(limits, document["verdict"])}


def _looks(opened: Opened) -> int:
    """How many other configurations this user audited on the run's test rows before this one."""
    run, subject = opened.run, opened.subject
    slices = run.dataset().slices
    rows = hashlib.sha256(run.facts["data_sha256"].encode())
    for part in (slices.attack, slices.test):
        rows.update(np.ascontiguousarray(part, np.int64).data)
    configuration = run.recipe_sha256() if subject.artefact == KERAS else subject.pipeline_sha256()
    return looks_before(rows.hexdigest(), configuration)


def _shipped(about: About) -> list[str]:
    """What ships of training rows although nothing reads it out of x'."""
    return [EXTREMES] if about.dataset.input.extremes else []


def _raw(rates: Mapping[str, Mapping[str, float]], y: str, z: str) -> list[Finding]:
    """What D_y and D_z read of raw samples: what there is to keep, and to hide."""
    return [
        Finding.measured(name, reader, "right", Interval(*rates[of].values()), of=RAW, more={"kind": "reader"})
        for name, reader, of in ((y, "D_y", "target"), (z, "D_z", "sensitive"))
    ]


def _name(subject: Subject, there: OnBoard | None, budget: str, seed: int) -> str:
    """A folder's name for the answers of one audit. Raises ``BadInput`` for an artefact that was not exported."""
    if subject.artefact != KERAS:
        subject.sha256()
    pipeline = subject.artefact if subject.artefact == KERAS else subject.pipeline_sha256()[:16]
    return f"attacks-{pipeline}-{budget}-{seed}{'' if there is None else '-on-board'}"


def _not_last(about: About, answers: dict[str, list[Finding]]) -> list[Callable[[], None]]:
    """What measures the probes and sections that need no attack, into ``answers`` by their names."""

    def measure(name: str, ask: Callable[[], list[Finding]]) -> None:
        answers[name] = ask()

    measurements = [(one.name, partial(one.run, about)) for one in probes()]
    measurements += [(one.name, partial(one.measure, about, [])) for one in _asked_of(about) if not one.last]
    return [partial(measure, *one) for one in measurements]


def _asked_of(about: About) -> list[Section]:
    return [section for section in sections() if section.applies(about)]


def _sections(about: About, answers: Mapping[str, list[Finding]]) -> tuple[list[Finding], dict[str, Any]]:
    """What needs no adversaries of z: each section asks another question of the outputs, and may add a key.

    ``answers`` are those that are there already, by the names of sections and probes.
    """
    findings: list[Finding] = []
    keys: dict[str, Any] = {}
    for section in _asked_of(about):
        findings += answers[section.name] if section.name in answers else section.measure(about, findings)
        keys |= section.keys(about)
    for probe in probes():
        findings += answers[probe.name] if probe.name in answers else probe.run(about)
    return findings, keys


def _description(about: About) -> dict[str, Any]:
    """The document's part that says what was audited, on which data."""
    subject, dataset, on_board = about.subject, about.dataset, about.there
    spec, whole = dataset.input, about.run.dataset() if about.run.sample() is dataset else dataset
    described, test = subject.manifest["perturber"], dataset.part("test")
    ships = subject.artefact != KERAS
    units = None if test.cluster is None else len(np.unique(test.cluster))
    # For each y how many rows (n,) have each z, most frequent first: which z is which stays out of the document.
    return {
        "artefact": subject.artefact,
        "speaks_of": {subject.artefact: subject.sha256()} if ships else {},
        "pipeline": {subject.artefact: subject.pipeline_sha256()} if ships else {},
        "backends": dict(about.perturbed.backends if on_board is None else on_board.rows.ran["backends"]),
        "perturber": described["kind"],
        "data": {
            "name": dataset.name,
            "target": described["target"],
            "sensitive": described["sensitive"],
            "y_classes": int(dataset.theta.shape[0]),
            "z_classes": int(dataset.theta.shape[1]),
            "counts": [
                sorted(np.unique(test.z[test.y == k], return_counts=True)[1].tolist(), reverse=True)
                for k in range(dataset.theta.shape[0])
            ],
            "rows": {name: len(dataset.part(name)) for name in PARTS},
            **(
                {} if whole is dataset else {"sampled_from": {name: len(getattr(whole.slices, name)) for name in PARTS}}
            ),
            "clusters": None if units is None else {"kind": dataset.cluster_kind, "test": units},
            **({} if spec.series is None else {"series": {"steps": spec.shape[0], **spec.as_json()["series"]}}),
        },
        "intervals": "Wilson" if units is None else f"Wilson on the effective number of {dataset.cluster_kind}s",
    }
