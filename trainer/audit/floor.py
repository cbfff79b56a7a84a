"""Every adversary against released rows, and what the classifiers say of these and of raw ones."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.trainer.attacks.ahead import Ahead
from edgeveil.trainer.attacks.exposure import MOST_CLASSES
from edgeveil.trainer.attacks.families.code_counts import CodeCounts
from edgeveil.trainer.attacks.families.fixed import Fixed, masked
from edgeveil.trainer.attacks.families.networks import logits
from edgeveil.trainer.attacks.findings import Done, Journal, code_of_family
from edgeveil.trainer.attacks.parts import Labels, Part, parts
from edgeveil.trainer.attacks.problem import BUDGETS, Budget, Problem, Released, digest
from edgeveil.trainer.attacks.protocol import Adversary
from edgeveil.trainer.attacks.registry import adversaries
from edgeveil.trainer.attacks.rows import places, question_of
from edgeveil.trainer.attacks.run_all import run, summed_up
from edgeveil.trainer.audit import readers
from edgeveil.trainer.audit.document import Audited, interval, measured, versions
from edgeveil.trainer.audit.findings import LABEL_ONLY
from edgeveil.trainer.audit.sections import other_attributes, retained
from edgeveil.trainer.audit.sections.retained import named_by
from edgeveil.trainer.audit.subject import perturb_with
from edgeveil.trainer.child_processes import Job
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.graphs.prediction import asked_once, keep_answers, recall_answers
from edgeveil.trainer.measures import intervals
from edgeveil.trainer.results import code_of
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow

Families = Callable[[Problem], tuple[Adversary, ...]]


def examine(
    dataset: Dataset,
    released: Released,
    classifiers: Mapping[str, Any],
    budget: Budget,
    seed: int,
    done: Done | None = None,
    *,
    families: Families | None = None,
    labels: Mapping[str, np.ndarray] | None = None,
) -> Audited:
    """Every adversary against the outputs for the rows of all slices, in their order; and every reader of y.

    ``families`` chooses among the adversaries of the registry, by the problem. ``labels`` are the labels among the
    outputs, by name, (n,) each.
    """
    question = question_of(dataset, released, budget, classifiers, seed=seed)
    chosen = None if families is None else families(question.whole)
    test = released.take(places(dataset).test)
    ran = run(question, seed=seed, done=done, families=chosen)
    of_z = summed_up(question, ran, seed=seed)
    most = ran.most_bits
    apart: tuple[Part, ...] = ()
    if most is not None and most.test.row is not None:
        # y as D_y reads it from what left
        read, of_choose = (
            logits(classifiers["target"], dataset.unit(x)).argmax(axis=1) for x in (test.x, most.choose.x)
        )
        of_row = np.empty(len(dataset.y), np.int64)
        of_row[dataset.slices.test] = read
        judged, rng = (most.judged("choose"), most.judged("test")), np.random.default_rng([seed, 10])
        label, known = Labels(of_choose, of_row[most.test.row]), _attributes(dataset, most.test.row)
        apart = parts(*judged, question.whole.counted, known, label=label, rng=rng)
    of_y = readers.read(dataset, released, labels or {}, classifiers["target"], budget, seed)
    return Audited(measured(of_y[0]), of_z, most, apart, of_y, ran.kept)


def _attributes(dataset: Dataset, rows: np.ndarray) -> dict[str, np.ndarray]:
    """What is known of some rows besides y and z, by name: numbers, and names of classes where these are few."""
    by_name = {name: values[rows] for name, values in dataset.attributes.items()}
    unnamed = dataset.joint["z"].names if "z" in dataset.joint else ()  # classes of z stay unnamed
    for name, one in dataset.known.items():
        is_label = any(np.array_equal(one.values, of) for of in (dataset.y, dataset.z))
        if len(one.names) <= MOST_CLASSES and not is_label and name not in unnamed:
            by_name[name] = np.array(one.names)[one.values[rows]]
    return by_name


def raw_rates(dataset: Dataset, classifiers: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """How often D_y and D_z (given y) read raw test samples right: what there is to keep, and to hide."""
    test = dataset.part("test")
    target = logits(classifiers["target"], dataset.unit(test.x)).argmax(axis=1)
    sensitive = masked(logits(classifiers["sensitive"], dataset.unit(test.x)), dataset.theta[test.y]).argmax(axis=1)
    answers = {"target": target == test.y, "sensitive": sensitive == test.z}
    return {name: interval(intervals.rate(right, test.cluster)) for name, right in answers.items()}


# Label-only of a run, the floor next to which a perturber stands: the same whatever artefact is audited.
#
# It is measured once for each run, budget and seed; where an audit has several processes, in one of them.

LABEL_ONLY_ROWS = 12_000


@dataclass(frozen=True)
class Floor:
    """Label-only of ``run``, measured with ``budget`` and ``seed`` on its ``dataset``, and kept in ``folder``.

    ``classifiers`` are the run's D_y and D_z; ``named`` properties that its recipe asks to keep are read of label-only
    too. ``target`` and ``sensitive`` are the names of y and z.
    """

    dataset: Dataset
    classifiers: Mapping[str, Any]
    budget: Budget
    seed: int
    named: tuple[str, ...]
    target: str
    sensitive: str
    folder: Path

    @classmethod
    def from_run(cls, run: Run, budget: Budget, seed: int, folder: Path) -> Floor:
        """That of a finished run."""
        data = run.recipe.data
        names = data.target, data.sensitive
        return cls(run.sample(), run.classifiers(), budget, seed, named_by(run), *names, folder)

    def document(self, begins: Callable[[str], None] = lambda _: None) -> list[dict[str, Any]]:
        """The findings about label-only as JSON, from ``folder`` if they are there; ``begins`` gets what runs."""
        with contextlib.suppress(OSError, ValueError):
            return json.loads(self._path.read_text())
        measured = json.dumps(self._measured(begins))
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(self._path, measured.encode())
        return json.loads(measured)

    def begun(self, run: Run, ahead: Ahead | None) -> Callable[[], None]:
        """Begin to measure it in another process, where there are any; return what waits for its end.

        Where that fails, ``document`` measures it here, and says why it cannot be.
        """
        if ahead is None or self._path.is_file():
            return lambda: None
        arguments = {"run": str(run.folder), "budget": self.budget.name, "seed": self.seed, "folder": str(self.folder)}
        return ahead.begin(Job("label-only", f"{__name__}:measured_apart", arguments))

    def recall(self) -> None:
        """Let the classifiers recall what they said of raw samples when it was measured; within ``asked_once``."""
        recall_answers(self.folder, *self.classifiers.values())

    def _measured(self, begins: Callable[[str], None]) -> list[dict[str, Any]]:
        """In a quick audit counting stands for those that learn: a label takes few values, and counting is exact."""
        from edgeveil.trainer.perturbers.label_only import from_classifier

        dataset, journal = self.dataset, Journal(self.folder, made_by=versions(), begins=begins)
        # Its x' takes no more values than y has: a few thousand rows are enough.
        fewer = replace(self.budget, rows=min(self.budget.rows, LABEL_ONLY_ROWS), journal=journal)

        def families(problem: Problem) -> tuple[Adversary, ...]:
            counting = not fewer.every_family and problem.few_values
            return (Fixed(), CodeCounts()) if counting else adversaries()

        with asked_once(*self.classifiers.values()):
            self.recall()
            fitted = from_classifier(dataset.for_training(), self.classifiers["target"])
            sent = perturb_with(fitted, dataset, dataset.slices.rows())
            request = retained.Asked(dataset, self.target, self.named, self.budget.name, self.seed)
            useful = retained.label_only(request, sent.released.x, sent.outputs["label"])
            released = sent.released
            audited = examine(
                dataset, released, self.classifiers, fewer, self.seed, families=families, labels=sent.labels
            )
            of_z = audited.attacks
            what = other_attributes.section(dataset, released, fewer, self.seed, of_z=of_z, of=LABEL_ONLY)
            raw_rates(dataset, self.classifiers)  # the audit will ask for them
            self.folder.mkdir(parents=True, exist_ok=True)
            keep_answers(self.folder, *self.classifiers.values())
        findings = [*audited.findings(self.target, self.sensitive, of=LABEL_ONLY), *what]
        # Of raw samples, and of donors: they stand next to label-only, and are the same whatever artefact is audited.
        return [one.as_json() for one in [*findings, *useful]]

    @cached_property
    def _path(self) -> Path:
        """Named by all that it depends on."""
        of, slices = self.dataset, self.dataset.slices
        labels = [(name, known.names, known.ordered) for name, known in of.known.items()]
        told = [of.name, of.input, of.y_names, of.z_names, sorted(of.attributes), labels, of.seed, of.homogeneous]
        told += [self.budget, self.seed, self.named, self.target, self.sensitive, versions()]
        code = b"".join(code_of(Path(__file__).parents[2] / name) for name in ("attacks", "audit"))
        code += b"".join(family.name.encode() + code_of_family(family) for family in adversaries())  # plugins too
        arrays = [np.frombuffer(repr(told).encode() + code, np.uint8), of.x, of.y, of.z, of.theta, of.cluster]
        arrays += [slices.classifiers, slices.perturber, slices.test, slices.attack]
        arrays += [of.attributes[name] for name in sorted(of.attributes)]
        arrays += [known.values for known in of.known.values()]
        weights = [one for model in self.classifiers.values() for one in model.get_weights()]
        return self.folder / f"floor-{digest(*arrays, *weights).hex()[:32]}.json"


def measured_apart(run: str, budget: str, seed: int, folder: str) -> dict[str, Any]:
    """Measure it in another process: the folder of the run, budget, seed and the folder to keep it in."""
    load_tensorflow()
    try:
        Floor.from_run(Run.open(Path(run)), BUDGETS[budget], seed, Path(folder)).document()
    except Exception as error:  # it is raised again where the document is asked for
        return {"failed": type(error).__name__}
    return {}
