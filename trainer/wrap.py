"""From a finished model, or a plain function, to an export folder: what ``edgeveil wrap`` does.

The run of it is one as any other: D_y and D_z are trained on the data, for the audit, and the perturber is the model as
it is (``trainer.perturbers.wrapped``).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from edgeveil.devices import profiles as board_profiles
from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer import datasets
from edgeveil.trainer.export.export import check_given, export
from edgeveil.trainer.export.folder import ExportFolder, check_place
from edgeveil.trainer.ext.sweep import axes
from edgeveil.trainer.networks.own import is_module, saved
from edgeveil.trainer.perturbers.wrapped import TAKES, Wrapped
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.data_section import data_at
from edgeveil.trainer.recipe.messages import nearest, problem
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.scaffold.given import Given
from edgeveil.trainer.scaffold.new import compose
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from edgeveil.trainer.train import train

# Of the recipe whose data are taken: what belongs to its own perturber.
_OF_ITS_PERTURBER = ("perturber", "certificate", "spending", "private", "head")


def wrap(
    model: Any,
    data: str | Recipe,
    out: Path,
    *,
    profiles: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    target: str | None = None,
    sensitive: str | None = None,
    classifiers: Path | None = None,
    budget: str = "full",
    replace: bool = False,
) -> ExportFolder:
    """Make an export folder ``out``, and the run that its audit reads next to it, of a model as it is.

    ``model`` is a file .keras, .pt2, .onnx or .tflite, a function as ``blur:sigma=6``, or an object, a Keras model or a
    module of PyTorch, which is saved as ``out`` with .keras; ``data`` is what ``edgeveil
    recipe new`` takes, or a recipe, whose data, prior, classifiers and limits are taken. ``profiles`` names boards,
    which must pass the lint; none: all, of which those that do not pass are left out. ``settings`` changes keys of the
    recipe, as ``budget.classifier_epochs``; those of ``TAKES`` need no ``perturber.``. ``classifiers`` is the folder of
    a run whose D_y and D_z to take.

    Raises ``BadInput``; then, and where it is interrupted, nothing is left behind.
    """
    load_tensorflow()
    file = model if isinstance(model, str) else str(out.with_suffix(".keras").absolute())
    given = dict(settings or {})
    if is_module(model) and given.get("layout") == "first":  # by now the model in the file has them last
        del given["layout"]
    recipe = _recipe(file, data, out, given, target, sensitive)
    run = run_of(out)
    check_place(out, replace=replace)
    boards = list(profiles) or board_profiles.names()
    chosen = [board_profiles.load(name, commands=True) for name in boards]
    dataset = datasets.load(recipe.with_budget(budget)).for_training()
    with ExitStack() as stack:
        if file is not model:
            size, own = cast(Wrapped, recipe.perturber).size, dataset.input.shape
            shape = tuple(own) if size is None else (*size, own[-1])
            stack.enter_context(saved(model, Path(file), lambda: shape, replace=replace, kept=out))
        fitted, _, _ = cast(Wrapped, recipe.perturber).tried_on(dataset)  # fail before the minutes of D_y and D_z
        if profiles:
            check_given(fitted, chosen)
        before = run.exists()
        try:
            try:
                train(recipe, run, budget=budget, replace=replace, classifiers=classifiers)
            except LimitNotMet as missed:  # of y alone: the audit has the figure
                if not (run / "perturber").is_dir():
                    raise
                say(f"{str(missed).partition('. ')[0]}. Nothing of a given model is trained, so this is no error.")
            return export(run, boards, out, replace=replace, leave_out=not profiles)
        except BaseException:  # Ctrl-C too
            if not before or replace:  # an earlier one has a dated name by then
                shutil.rmtree(run, ignore_errors=True)
            raise


def stated(texts: Sequence[str]) -> dict[str, Any]:
    """Keys of a recipe from what ``--set`` gives, ``size=64x48`` and ``gives=0:1`` among them. Raises ``BadInput``."""
    takes = axes.settings(texts, "--set: expected KEY=VALUE such as low=-1 or budget.classifier_epochs=3")
    for key in takes:
        if "." not in key and key not in (*TAKES, *Recipe.model_fields):
            known = f"{', '.join(TAKES)} or a key of the recipe such as budget.classifier_epochs"
            raise BadInput(f"--set {key}: expected {known}{nearest(key, TAKES)}.")
    return takes


def run_of(out: Path) -> Path:
    """The folder of the run of an export folder: its name without ``-export``, or with ``-run``."""
    name = out.resolve().name
    return out.with_name(name.removesuffix("-export") if name.endswith("-export") else f"{name}-run")


def _recipe(
    model: str, data: str | Recipe, out: Path, settings: Mapping[str, Any], target: str | None, sensitive: str | None
) -> Recipe:
    """The recipe of the data with the model as its perturber, and ``settings``. Raises ``BadInput``."""
    if isinstance(data, Recipe):
        basis = data
    elif ":" in (source := data_at(data)):
        draft = compose(Given(source, target, sensitive), out.absolute(), kind="wrapped")
        for note in draft.notes:
            say(note)
        basis = draft.recipe(draft.untried())
    else:
        basis = Recipe.find(data)
    table = {key: value for key, value in basis.model_dump(exclude_none=True).items() if key not in _OF_ITS_PERTURBER}
    for key in ("family", "also_sensitive"):
        table["data"].pop(key, None)
    of = basis.name if isinstance(data, Recipe) else Path(data).stem
    name = f"{of}-{Path(model).stem if Path(model).suffix else model}".lower()
    name = re.sub(r"[^a-z0-9._-]+", "-", name).strip("-._")[:80]
    given = {f"perturber.{key}" if key in TAKES else key: value for key, value in settings.items()}
    takes = {key.removeprefix("perturber."): given.pop(key) for key in [*given] if key.startswith("perturber.")}
    section = {"kind": "wrapped", "model": model, **{key: value for key, value in takes.items() if value is not None}}
    about = {"name": name, "description": f"A given model on the data of {basis.name}"[:200]}
    try:
        Wrapped(**section)
    except ValidationError as error:
        raise BadInput(f"{model}: {problem(error, Wrapped)}.") from None
    table = {**table, **about, "perturber": section}
    made = Recipe.of_table(table, origin="wrap", folder=Path.cwd(), taken=basis.code())
    return axes.with_settings(made, given) if given else made
