"""A run for MLflow: its recipe as params, its epochs and final figures as metrics, in a folder that ``mlflow`` reads.

Copied from the run's own files once it has ended, so that MLflow can fail no training. ``mlflow-skinny`` is enough.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.trainer.runs.listing import settings

EXPERIMENT = "edgeveil"
_BATCH = 100  # the most params that MLflow takes at a time; of metrics it takes more


class MlflowStore:
    """MLflow's file store in ``folder``. Raises ``BadInput`` without the package, or where nothing can be written."""

    def __init__(self, folder: Path) -> None:
        # MLflow 3.13 and later keep to databases otherwise, which mlflow-skinny has no packages for.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        try:
            from mlflow import MlflowClient
            from mlflow.exceptions import MlflowException
        except ImportError:
            raise BadInput(
                "--track mlflow: needs the package mlflow-skinny, which is not installed: pip install "
                "'edgeveil[mlflow]'. Or leave --track out: edgeveil runs shows the same figures."
            ) from None
        self.folder = folder.absolute()
        try:
            self._client = MlflowClient(tracking_uri=self.folder.as_uri())
            found = self._client.get_experiment_by_name(EXPERIMENT)
            self._experiment = self._client.create_experiment(EXPERIMENT) if found is None else found.experiment_id
        except (MlflowException, OSError) as error:
            raise BadInput(
                f"--track: a folder for MLflow was expected at {folder}; nothing can be written there: {reason(error)}"
            ) from None

    def add(self, run: Path) -> str:
        """Copy the run in a folder, whatever it ended with; MLflow's id of it. Raises ``BadInput`` for no run."""
        from mlflow.entities import Metric, Param, RunTag

        params = {**settings(run), **_given(run)}
        made = self._client.create_run(self._experiment, run_name=run.absolute().name)
        self._batches(made.info.run_id, params=[Param(key, str(value)) for key, value in params.items()])
        self._batches(made.info.run_id, metrics=[Metric(*each) for each in _metrics(run)])
        tags = {key: str(_facts(run).get(key)) for key in ("recipe", "state", "limit_met")}
        self._client.log_batch(made.info.run_id, tags=[RunTag(f"edgeveil.{key}", value) for key, value in tags.items()])
        self._client.set_terminated(made.info.run_id)
        return made.info.run_id

    def _batches(self, run_id: str, **entities: list[Any]) -> None:
        for kind, every in entities.items():
            for at in range(0, len(every), _BATCH):
                self._client.log_batch(run_id, **{kind: every[at : at + _BATCH]})


def store_of(text: str) -> MlflowStore:
    """The store that ``mlflow:DIR`` names. Raises ``BadInput``."""
    kind, _, folder = text.partition(":")
    if kind != "mlflow" or not folder:
        raise BadInput(f"--track: mlflow:DIR was expected, such as mlflow:mlruns; got {text!r}.")
    return MlflowStore(Path(folder))


def _facts(run: Path) -> dict[str, Any]:
    return json.loads((run / "run.json").read_text())


def _given(run: Path) -> dict[str, Any]:
    """What a run depends on beside its recipe."""
    facts = _facts(run)
    return {f"run.{key}": facts[key] for key in ("budget", "seed", "data_sha256") if key in facts}


def _metrics(run: Path) -> Iterator[tuple[str, float, int, int]]:
    """Key, value, milliseconds since 1970 and step: each figure of each epoch, then the final ones."""
    at_ms = 0
    for line in (run / "metrics.jsonl").read_text().splitlines():
        epoch = json.loads(line)
        stage, step, at_ms = epoch.pop("stage"), int(epoch.pop("step")), int(epoch.pop("time_s") * 1000)
        for name, value in epoch.items():
            yield f"{stage}/{name}", float(value), at_ms, step
    facts = _facts(run)
    final = {f"final/{name}": value for name, value in facts.get("validation", {}).items()}
    final |= {f"wall_time_s/{name}": value for name, value in facts.get("wall_time_s", {}).items()}
    for name, value in final.items():
        if isinstance(value, int | float):
            yield name, float(value), at_ms, 0
