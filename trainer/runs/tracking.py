"""A training followed by others' trackers: MLflow at any tracking URI, and Weights & Biases.

``EDGEVEIL_TRACK`` names one: its recipe as params, each epoch as it ends, the final figures, and the run's own files
(no checkpoint, no sample). The run on disk stays the record: a tracker that fails stops no training.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit, urlunsplit

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet, reason
from edgeveil.trainer.progress import say
from edgeveil.trainer.runs.listing import settings

NAME = "EDGEVEIL_TRACK"
PROJECT = "edgeveil"
FILES = ("recipe.toml", "run.json", "metrics.jsonl")  # what a tracker is given of the folder
SECTIONS = ("budget", "seed", "data_sha256")  # of run.json, which a run depends on in addition to its recipe


class Tracker:
    """One run in one tracker. ``where`` is what follows its name, without a password.

    Raises ``BadInput`` without its package, for an address that is none, and where nothing answers.
    """

    name: ClassVar[str]
    form: ClassVar[str]  # what follows the name, in messages
    package: ClassVar[str]

    def __init__(self, where: str) -> None:
        self.where = without_password(where)
        self.id = ""
        self._failed = False

    @property
    def title(self) -> str:
        """Tracker and place, as messages name it."""
        return f"{self.name}:{self.where}"

    def begin(self, folder: Path, facts: Mapping[str, Any], earlier: str = "") -> str:
        """Open a run, or go on with ``earlier``; its id. ``facts`` are those of run.json."""
        params = {**settings(folder), **{f"run.{key}": facts[key] for key in SECTIONS if key in facts}}
        try:
            self.id = self._open(folder, {key: str(value) for key, value in params.items()}, earlier)
        except Exception as error:  # whatever it raises: others' code
            raise self._refused(error) from None
        return self.id

    def metric(self, stage: str, step: int, at_s: float, values: Mapping[str, float]) -> None:
        """The figures of an epoch, as soon as they are known."""
        self._try(lambda: self._log({f"{stage}/{name}": float(value) for name, value in values.items()}, step, at_s))

    def end(self, folder: Path, facts: Mapping[str, Any], how: str) -> None:
        """Final figures, tags and files; ``how`` is ``FINISHED``, ``FAILED`` or ``KILLED``."""
        final = {f"final/{name}": value for name, value in facts.get("validation", {}).items()}
        final |= {f"wall_time_s/{name}": value for name, value in facts.get("wall_time_s", {}).items()}
        figures = {name: float(value) for name, value in final.items() if isinstance(value, int | float)}
        tags = {f"edgeveil.{key}": str(facts.get(key)) for key in ("recipe", "state", "limit_met")}
        files = [folder / name for name in FILES if (folder / name).is_file()]
        self._try(lambda: self._close(figures, tags, files, how))

    def _try(self, step: Callable[[], None]) -> None:
        """Once it has failed, nothing more is sent: a training does not wait for it again and again."""
        if self._failed:
            return
        try:
            step()
        except Exception as error:  # whatever it raises: others' code
            self._failed = True
            say(f"{NAME}: {self.title} no longer takes figures ({_short(error)}); the training goes on without it.")

    def _refused(self, error: Exception) -> BadInput:
        return BadInput(
            f"{NAME}: {self.form} was expected to take a run; {self.title} does not: {_short(error)}. Correct it, or "
            "leave it out: edgeveil run shows the same figures."
        )

    def _missing(self) -> BadInput:
        return BadInput(
            f"{NAME}={self.name}: needs the package {self.package}, which is not installed: pip install "
            f"'edgeveil[{self.name}]'. Or leave it out: edgeveil run shows the same figures."
        )

    def _open(self, folder: Path, params: Mapping[str, str], earlier: str) -> str:
        raise NotImplementedError

    def _log(self, values: Mapping[str, float], step: int, at_s: float) -> None:
        raise NotImplementedError

    def _close(self, figures: Mapping[str, float], tags: Mapping[str, str], files: list[Path], how: str) -> None:
        raise NotImplementedError


class Mlflow(Tracker):
    """A tracking URI of MLflow (http, https, sqlite, databricks, ...), or a folder; ``mlflow-skinny`` is enough."""

    name, form, package = "mlflow", "mlflow:URI or mlflow:FOLDER", "mlflow-skinny"
    MOST = 100  # params, or metrics, that it takes at a time

    def __init__(self, where: str) -> None:
        super().__init__(where)
        uri = where if _is_address(where, self.form) else Path(where).absolute().as_uri()
        # MLflow 3.13 and later keep to databases otherwise; and it would ask a server that is away for two minutes.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        try:
            from mlflow import MlflowClient
        except ImportError:
            raise self._missing() from None
        try:
            self._client = MlflowClient(tracking_uri=uri)
            known = self._client.get_experiment_by_name(PROJECT)
            self._experiment = self._client.create_experiment(PROJECT) if known is None else known.experiment_id
        except Exception as error:  # whatever it raises: others' code
            raise self._refused(error) from None

    def _open(self, folder: Path, params: Mapping[str, str], earlier: str) -> str:
        from mlflow.entities import Param

        if earlier:
            self._client.update_run(earlier, status="RUNNING")
            return earlier
        made = str(self._client.create_run(self._experiment, run_name=folder.absolute().name).info.run_id)
        every = [Param(*each) for each in params.items()]
        for at in range(0, len(every), self.MOST):
            self._client.log_batch(made, params=every[at : at + self.MOST])
        return made

    def _log(self, values: Mapping[str, float], step: int, at_s: float) -> None:
        from mlflow.entities import Metric

        at_ms = int(at_s * 1000)
        self._client.log_batch(self.id, metrics=[Metric(key, value, at_ms, step) for key, value in values.items()])

    def _close(self, figures: Mapping[str, float], tags: Mapping[str, str], files: list[Path], how: str) -> None:
        from mlflow.entities import Metric, RunTag

        self._client.log_batch(
            self.id,
            metrics=[Metric(key, value, 0, 0) for key, value in figures.items()],
            tags=[RunTag(*each) for each in tags.items()],
        )
        for path in files:
            self._client.log_artifact(self.id, str(path))
        self._client.set_terminated(self.id, status=how)


class Wandb(Tracker):
    """A project of Weights & Biases, ``PROJECT`` or ``ENTITY/PROJECT``. Its own variables say where and as whom:
    ``WANDB_BASE_URL``, ``WANDB_API_KEY``, ``WANDB_MODE=offline``."""

    name, form, package = "wandb", "wandb:PROJECT or wandb:ENTITY/PROJECT", "wandb"

    def __init__(self, where: str) -> None:
        super().__init__(where)
        if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", where):
            raise BadInput(
                f"{NAME}: {self.form} was expected; got {self.title!r}. The address of a server goes into "
                "WANDB_BASE_URL."
            )
        try:
            import wandb
        except ImportError:
            raise self._missing() from None
        self._wandb: Any = wandb
        self._run: Any = None
        *entity, self._project = where.split("/")
        self._entity = entity[0] if entity else None

    def _open(self, folder: Path, params: Mapping[str, str], earlier: str) -> str:
        # The recipe and the figures, and nothing of the machine, its screen or its code.
        quiet = {"console": "off", "disable_git": True, "disable_code": True, "save_code": False, "silent": True}
        unseen = {"x_disable_stats": True, "x_disable_meta": True, "x_disable_machine_info": True}
        known = getattr(self._wandb.Settings, "model_fields", quiet)
        chosen = {key: value for key, value in {**quiet, **unseen}.items() if key in known}
        self._run = self._wandb.init(
            project=self._project,
            entity=self._entity,
            name=folder.absolute().name,
            id=earlier or None,
            resume="allow",
            config=dict(params),
            dir=str(folder),
            settings=self._wandb.Settings(**chosen),
        )
        return str(self._run.id)

    def _log(self, values: Mapping[str, float], step: int, at_s: float) -> None:
        stage = next(iter(values), "run").partition("/")[0]
        self._run.define_metric(f"{stage}/*", step_metric=f"{stage}/epoch")
        self._run.log({**values, f"{stage}/epoch": step, "_timestamp": at_s})

    def _close(self, figures: Mapping[str, float], tags: Mapping[str, str], files: list[Path], how: str) -> None:
        self._run.summary.update({**figures, **tags})
        artefact = self._wandb.Artifact(f"run-{self.id}", type="run")
        for path in files:
            artefact.add_file(str(path))
        self._run.log_artifact(artefact)
        self._run.finish(exit_code=int(how != "FINISHED"))


TRACKERS = {one.name: one for one in (Mlflow, Wandb)}


def tracker(text: str | None) -> Tracker | None:
    """The tracker that ``EDGEVEIL_TRACK`` names; None where it is empty. Raises ``BadInput``."""
    if not text:
        return None
    name, _, where = text.partition(":")
    if name not in TRACKERS or not where:
        forms = " or ".join(one.form for one in TRACKERS.values())
        raise BadInput(f"{NAME}: {forms} was expected; got {without_password(text)!r}.")
    return TRACKERS[name](where)


@contextmanager
def tracked(run: Any, follower: Tracker | None) -> Iterator[None]:
    """What the block trains is followed; ``run`` is a ``Run`` that ``begin`` was called for."""
    if follower is None:
        yield
        return
    run.follower = follower.metric
    how = "FAILED"
    try:
        yield
        how = "FINISHED"
    except LimitNotMet:  # the run is complete, and its figures say why
        how = "FINISHED"
        raise
    except KeyboardInterrupt:
        how = "KILLED"
        raise
    finally:
        run.follower = None
        follower.end(run.folder, run.facts, how)


def begin(run: Any, follower: Tracker | None) -> None:
    """Open the run there, or go on with the one that this folder has there. Raises ``BadInput``."""
    if follower is not None:
        known = dict(run.facts.get("tracked", {}))
        known[follower.title] = follower.begin(run.folder, run.facts, known.get(follower.title, ""))
        run.record(tracked=known)


def without_password(text: str) -> str:
    """An address without the name and the password in it."""
    head, mark, rest = text.partition("://")
    parts = urlsplit(f"x://{rest}") if mark else None
    if parts is None or "@" not in parts.netloc:
        return text
    clean = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return f"{head}{clean.removeprefix('x')}"


def _is_address(where: str, form: str) -> bool:
    """Whether it is a URI and no folder. Raises ``BadInput`` for what is neither: nothing is made of an address."""
    if "://" in where or where in ("databricks", "databricks-uc"):
        return True
    if re.match(r"(?![A-Za-z]:[\\/])[\w.-]+:", where):
        raise BadInput(
            f"{NAME}: {form} was expected; {where!r} is an address without its scheme. Write http://HOST:PORT, or "
            f"./{where} for a folder of that name."
        )
    return False


def _short(error: Exception) -> str:
    text = " ".join(reason(error).split())
    return re.sub(r"(://)[^/\s@]+@", r"\1", text)[:300]
