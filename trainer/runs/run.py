"""A run: the folder with everything needed to repeat a training, to resume it and to use its result.

::

    RUN/recipe.toml       the recipe with all defaults, under the budget of the command
    RUN/run.json          seeds, versions, machine, wall times, results
    RUN/slices.npz        the row numbers of the slices; runs made by 0.1 have no `attack`
    RUN/metrics.jsonl     one line per epoch: stage, step, time_s and what was measured
    RUN/tensorboard/      the same for TensorBoard
    RUN/classifiers/      target.keras (D_y), sensitive.keras (D_z)
    RUN/checkpoints/      last.npz to resume from, best.npz chosen on validation
    RUN/perturber/        the result: perturber.json, networks, tables
    RUN/head.npz          the head, where the recipe has one
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.edge_runtime.util.atomic import atomic_path, take_name, write_atomic
from edgeveil.trainer import datasets
from edgeveil.trainer.datasets import slicing
from edgeveil.trainer.datasets.base import PARTS, Dataset, Part, Slices
from edgeveil.trainer.datasets.readings import UNREADABLE
from edgeveil.trainer.graphs import keras_file
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.results import set_aside

# A checkpoint of a training in one file: all variables of its networks and optimisers, and a few facts.


class Checkpoint:
    """``holders`` are named objects with ``variables`` (Keras models, optimisers), all built.

    Written whole or not at all: after Ctrl-C or a power cut, training can continue from the file on disk.
    """

    def __init__(self, path: Path, **holders: Any) -> None:
        self.path, self._holders = path, holders

    def save(self, **facts: Any) -> None:
        """Write the variables and JSON ``facts``. Raises ``DeviceFailed`` if the disk is full."""
        arrays: dict[str, Any] = {
            f"{name}/{number}": variable.numpy()
            for name, holder in self._holders.items()
            for number, variable in enumerate(holder.variables)
        }
        text = np.frombuffer(json.dumps(facts).encode(), np.uint8)
        with atomic_path(self.path) as temporary, Path(temporary).open("wb") as file:
            np.savez(file, facts=text, **arrays)

    def restore(self) -> dict[str, Any] | None:
        """Restore the variables and return the facts; None, and nothing changed, if there is no checkpoint.

        Raises ``BadInput`` if the file does not fit these networks.
        """
        if not self.path.is_file():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as file:
                values = {key: file[key] for key in file.files}
            for name, holder in self._holders.items():
                for number, variable in enumerate(holder.variables):
                    variable.assign(values[f"{name}/{number}"])
            return json.loads(values["facts"].tobytes())
        except UNREADABLE as error:
            raise BadInput(
                f"The checkpoint {self.path} does not fit this recipe's networks or is damaged ({reason(error)}). "
                "Remove it to repeat that step, or train into another folder."
            ) from None


# Versions of the packages that a result depends on.


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """The versions of those of these packages that are installed."""
    versions = {}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


PACKAGES = ("edgeveil", "tensorflow", "tensorflow-cpu", "keras", "numpy", "scikit-learn")


class Run:
    """One training in one folder. Make it with ``Run.create`` or ``Run.open``."""

    def __init__(self, folder: Path, recipe: Recipe, facts: dict[str, Any]) -> None:
        self.folder, self.recipe, self.facts = folder, recipe, facts
        self._dataset: Dataset | None = None
        self._sample: Dataset | None = None
        self._writer: Any = None
        self._stages: set[str] = set()  # stages with lines from this process
        self.follower: Callable[[str, int, float, Mapping[str, float]], None] | None = None  # told of each epoch

    def __repr__(self) -> str:
        return f"<Run {self.folder}: {self.recipe.name}, {self.facts.get('state', 'not started')}>"

    @classmethod
    def create(
        cls, folder: Path, recipe: Recipe, *, budget: str = "full", resume: bool = False, replace: bool = False
    ) -> Run:
        """A new run in ``folder``; with ``resume`` the existing one, under a new ``[budget]`` if it changed.

        ``replace`` gives an earlier run there a dated name. Raises ``BadInput`` if the folder is not empty, or if a
        run to resume is missing or has another recipe.
        """
        recipe = recipe.with_budget(budget).with_files()
        dataset: Dataset | None = None
        if resume:
            facts = {**(run := cls.open(folder)).facts, "budget": budget}
            if changed := recipe.changed_from(run.recipe):
                raise BadInput(
                    f"The run in {folder} was started with another recipe (`{changed}` differs; of [budget] only the "
                    "epochs and the batch may). Resume with that recipe, or train into another folder."
                )
        else:
            earlier = (folder / "run.json").is_file()
            if not (earlier and replace) and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                ways = "It holds a run: add --resume to continue it, --replace to keep it under a dated name, or"
                ways = ways if earlier else "Please"
                raise BadInput(f"{folder} exists and is not empty. {ways} choose another folder.")
            dataset = datasets.load(recipe)  # before anything is written: bad data leave no folder behind
            if earlier:
                set_aside(folder)
            try:
                for part in ("", "classifiers", "checkpoints"):
                    (folder / part).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise BadInput(f"The folder {folder} cannot be made: {error.strerror}. Choose another place.") from None
            facts = {
                "schema": 1,
                "recipe": recipe.name,
                "budget": budget,
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
                "seed": recipe.seed,
                "versions": {"python": platform.python_version(), **package_versions(PACKAGES)},
                "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "system": platform.system()},
                "data_sha256": dataset.sha256(),
                "wall_time_s": {},
                "state": "started",
            }
        run = cls(folder, recipe, facts)
        run._dataset = dataset
        write_atomic(folder / "recipe.toml", recipe.toml().encode())
        if dataset is not None:
            with atomic_path(folder / "slices.npz") as temporary, Path(temporary).open("wb") as file:
                np.savez(file, **{part: getattr(dataset.slices, part) for part in PARTS})
            run.record()  # last: a folder with run.json is a run
        return run

    @classmethod
    def open(cls, folder: Path) -> Run:
        """The run in ``folder``. Raises ``BadInput`` if there is none."""
        try:
            facts = json.loads((folder / "run.json").read_text())
            recipe = Recipe.of_run(folder / "recipe.toml")
        except (OSError, ValueError, RecursionError) as error:
            raise BadInput(
                f"A run was expected in {folder}; there is none ({reason(error)}). Make one with `edgeveil train`."
            ) from None
        return cls(folder, recipe, facts)

    def adopt_classifiers(self, other: Run) -> None:
        """Copy D_y and D_z from another finished run on the same slices, instead of training them again.

        Raises ``BadInput`` if they would differ: other data, slices, seed or ``[classifiers]``.
        """
        mine, theirs = self.dataset(), other.dataset()
        differs = [
            what
            for what, same in {
                "data": self.facts["data_sha256"] == other.facts["data_sha256"],
                "slices": all(
                    np.array_equal(getattr(mine.slices, part), getattr(theirs.slices, part)) for part in PARTS
                ),
                "seed": self.recipe.seed == other.recipe.seed,
                "[classifiers]": _classifiers(self.recipe) == _classifiers(other.recipe),
                "budget.classifier_epochs": self.recipe.budget.classifier_epochs
                == other.recipe.budget.classifier_epochs,
            }.items()
            if not same
        ]
        if differs:
            raise BadInput(
                f"The classifiers of {other.folder} are not those that this recipe would train: its {differs[0]} "
                "differs. Leave --classifiers out, and they are trained."
            )
        other.classifiers()  # raises if one is missing
        for name in ("target", "sensitive"):
            source = other.folder / "classifiers" / f"{name}.keras"
            write_atomic(self.folder / "classifiers" / source.name, source.read_bytes())
        self.record(classifiers=other.facts["classifiers"], classifiers_from=other.folder.name)

    def record(self, **facts: Any) -> None:
        """Add facts to run.json."""
        self.facts.update(facts)
        write_atomic(self.folder / "run.json", (json.dumps(self.facts, indent=1, allow_nan=False) + "\n").encode())

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the wall time of the block to run.json, however it ends."""
        started = time.monotonic()
        try:
            yield
        finally:
            spent = self.facts["wall_time_s"]
            spent[name] = round(spent.get(name, 0.0) + time.monotonic() - started, 2)
            self.record()

    def metric(self, *, stage: str, step: int, **values: float) -> None:
        """One line of metrics.jsonl and one point per value in TensorBoard; ``step`` counts epochs of ``stage``.

        The first line of a stage replaces those from its step on: they were written after the checkpoint from which
        an interrupted training is resumed.
        """
        import tensorflow as tf

        if stage not in self._stages:
            self._stages.add(stage)
            self._forget_metrics(stage, step)
        line: dict[str, Any] = {"stage": stage, "step": step, "time_s": round(time.time(), 2), **values}
        try:
            with (self.folder / "metrics.jsonl").open("a") as file:
                file.write(json.dumps(line, allow_nan=False) + "\n")
        except OSError as error:
            raise BadInput(
                f"Cannot add to {self.folder / 'metrics.jsonl'}: {error.strerror}. Free some space, then --resume."
            ) from None
        if self._writer is None:
            self._writer = tf.summary.create_file_writer(str(self.folder / "tensorboard"))
        with self._writer.as_default():
            for name, value in values.items():
                tf.summary.scalar(f"{stage}/{name}", value, step=step)
        self._writer.flush()
        if self.follower is not None:
            self.follower(stage, step, line["time_s"], values)

    def checkpoint(self, name: str, **holders: Any) -> Checkpoint:
        """RUN/checkpoints/NAME.npz, of objects with ``variables`` (Keras models, optimisers), all built."""
        return Checkpoint(self.folder / "checkpoints" / f"{name}.npz", **holders)

    def metrics(self, stage: str | None = None) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl, of one stage or of all."""
        path = self.folder / "metrics.jsonl"
        # A last line without its end was cut off, as by a power cut.
        whole = path.read_text().rpartition("\n")[0].splitlines() if path.is_file() else []
        return [line for line in map(json.loads, whole) if stage in (None, line["stage"])]

    def _forget_metrics(self, stage: str, step: int) -> None:
        lines = self.metrics()
        remaining = [line for line in lines if line["stage"] != stage or line["step"] < step]
        if len(remaining) < len(lines):
            text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in remaining)
            write_atomic(self.folder / "metrics.jsonl", text.encode())

    def dataset(self) -> Dataset:
        """The data with this run's slices. Raises ``BadInput`` if the data are missing or have changed."""
        if self._dataset is None:
            try:
                with np.load(self.folder / "slices.npz", allow_pickle=False) as file:
                    slices = Slices(**{part: file[part] for part in PARTS if part in file or part != "attack"})
            except UNREADABLE as error:
                raise BadInput(
                    f"The slices of the run in {self.folder} cannot be read ({reason(error)}). Train again."
                ) from None
            dataset = datasets.load(self.recipe, slices=slices)
            if dataset.sha256() != self.facts["data_sha256"]:
                raise BadInput(
                    f"The data of {self.recipe.data.source} are not those that {self.folder} was started with. "
                    "Restore them, or train into another folder."
                )
            self._dataset = dataset
        return self._dataset

    def sample(self) -> Dataset:
        """The data in memory: of each slice of samples that stay on disk, some rows (``slicing.sample``)."""
        if self._sample is None:
            self._sample = slicing.sample(self.dataset())
        return self._sample

    def validation(self) -> Part:
        """The rows of the second slice by which checkpoints were chosen; never fitted."""
        return slicing.fit_and_validation(self.dataset(), "perturber")[1]

    def classifiers(self, *names: str) -> dict[str, Any]:
        """D_y and D_z, or those named: ``{"target": model, "sensitive": model}``, from the unit cube to logits."""
        paths = {name: self.folder / "classifiers" / f"{name}.keras" for name in names or ("target", "sensitive")}
        missing = [name for name, path in paths.items() if not path.is_file()]
        if missing:
            raise BadInput(
                f"The run in {self.folder} has no {missing[0]} classifier yet: finish it with "
                "`edgeveil train --resume`."
            )
        return {name: keras_file.read(path) for name, path in paths.items()}

    def perturber(self) -> Any:
        """The ``FittedPerturber`` of this run. Raises ``BadInput`` if it is not trained yet."""
        from edgeveil.trainer.runs.fitted import FittedPerturber

        if not (self.folder / "perturber" / "perturber.json").is_file():
            raise BadInput(f"The run in {self.folder} has no perturber yet: finish it with `edgeveil train --resume`.")
        return FittedPerturber.load(self.folder / "perturber")

    def save_perturber(self, fitted: Any) -> None:
        """Write ``fitted`` to RUN/perturber, whole or not at all."""
        new, final = self.folder / "perturber.new", self.folder / "perturber"
        try:
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            fitted.save(new)
            shutil.rmtree(final, ignore_errors=True)
            take_name(new, final)
        except OSError as error:
            raise BadInput(f"Cannot write {final}: {reason(error)}. Free some space, then --resume.") from None
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def recipe_sha256(self) -> str:
        """The hash of recipe.toml, by which a bundle's manifest names the run's recipe."""
        return hashlib.sha256((self.folder / "recipe.toml").read_bytes()).hexdigest()

    def summary(self) -> dict[str, Any]:
        """The document of ``edgeveil train --json``: run.json and the folder's name."""
        return {"run": str(self.folder), **self.facts}


def _classifiers(recipe: Recipe) -> Any:
    """What decides which D_y and D_z a recipe has: the section and its files."""
    named = set(map(str, recipe.classifiers.files()))
    return recipe.classifiers, [one.sha256 for one in recipe.files or () if one.file in named]


# The log of a training. ``Run`` is one; a caller without a run passes another.


class Log(Protocol):
    """Figures, facts, times and checkpoints of one training."""

    def metric(self, *, stage: str, step: int, **values: float) -> None:
        """Add figures; ``step`` counts epochs of ``stage`` from 1. A resumed stage replaces its later lines."""
        ...

    def record(self, **facts: Any) -> None:
        """Facts about the result, as JSON values."""
        ...

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Count the wall time of a block under ``name``."""
        ...

    def checkpoint(self, name: str, **holders: Any) -> Checkpoint:
        """The checkpoint ``name`` of objects with ``variables`` (Keras models, optimisers), all built."""
        ...


# A fitted head: the linear classifier of y that a run keeps next to its perturber, and what its fit promises.


FILE = "head.npz"


@dataclass(frozen=True)
class Head:
    """``weights`` (classes, values) and ``bias`` (classes,), float32, for samples in the unit cube.

    ``of`` is "reading" or "sent", ``mechanism`` what made it private. ``promise`` has the fields of a ``Guarantee``;
    None where nothing is promised.
    """

    of: str
    mechanism: str
    weights: np.ndarray
    bias: np.ndarray
    promise: Mapping[str, Any] | None

    def save(self, run: Path) -> None:
        """Write it into a run's folder, whole or not at all."""
        facts = json.dumps({"of": self.of, "mechanism": self.mechanism, "promise": self.promise})
        with atomic_path(str(run / FILE)) as temporary, Path(temporary).open("wb") as file:
            np.savez(file, weights=self.weights, bias=self.bias, facts=np.array(facts))

    @classmethod
    def of_run(cls, run: Path) -> Head | None:
        """That of a run's folder; None where it has none. Raises ``BadInput`` where it cannot be read."""
        if not (run / FILE).is_file():
            return None
        try:
            with np.load(run / FILE, allow_pickle=False) as file:
                return cls(**json.loads(str(file["facts"])), weights=file["weights"], bias=file["bias"])
        except UNREADABLE as error:
            raise BadInput(f"{run / FILE} cannot be read ({reason(error)}). Train again.") from None

    def predict(self, u: np.ndarray) -> np.ndarray:
        """The class of each sample u (n, *shape) in the unit cube, (n,)."""
        return (u.reshape(len(u), -1) @ self.weights.T + self.bias).argmax(axis=1)
