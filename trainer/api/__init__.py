"""EdgeVeil: on-sensor perturbation, from a data set to a signed bundle on a board.

The functions behind the commands, for notebooks and scripts. Large packages are imported only by the calls that need
them::

    >>> import edgeveil
    >>> with edgeveil.Perturber.open("digits.veil", trust="keys") as perturber:
    ...     sent = perturber.perturb(edgeveil.RawFrame(picture, index=0))
    >>> sent.data.shape
    (8, 8, 1)

``Perturber`` is the perturber of a board: it verifies a bundle, tests it on its golden vectors, and maps a raw frame to
a perturbed one. Errors have one sentence each: ``BadInput``, ``LimitNotMet``, ``BundleRefused``, ``DeviceFailed`` and
``PrivacyStop``, all ``EdgeVeilError``, and ``FrameDropped`` of one frame.
"""

from typing import TYPE_CHECKING, Any

from edgeveil.edge_runtime import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from edgeveil.edge_runtime.api import (
        BadInput,
        BundleRefused,
        DeviceFailed,
        EdgeVeilError,
        FrameDropped,
        LimitNotMet,
        PerturbedFrame,
        Perturber,
        PrivacyStop,
        RawFrame,
    )
    from edgeveil.edge_runtime.bundle.reader import Bundle
    from edgeveil.trainer.export.folder import ExportFolder
    from edgeveil.trainer.ext.private.estimators import (
        DPSGDClassifier,
        FunctionalLinearRegression,
        FunctionalLogisticRegression,
        PATEClassifier,
        PrivateHuberSVM,
        PrivateLasso,
        PrivateLogisticRegression,
    )
    from edgeveil.trainer.recipe.schema import Recipe
    from edgeveil.trainer.runs.run import Run

__all__ = [
    "BadInput",
    "BundleRefused",
    "DPSGDClassifier",
    "DeviceFailed",
    "EdgeVeilError",
    "FrameDropped",
    "FunctionalLinearRegression",
    "FunctionalLogisticRegression",
    "LimitNotMet",
    "PATEClassifier",
    "PerturbedFrame",
    "Perturber",
    "PrivacyStop",
    "PrivateHuberSVM",
    "PrivateLasso",
    "PrivateLogisticRegression",
    "RawFrame",
    "__version__",
    "audit",
    "export",
    "load_recipe",
    "new_recipe",
    "open_bundle",
    "train",
    "wrap",
]


def new_recipe(
    data: "Any", out: "str | Path", *, kind: "str | None" = None, trial: bool = False, **columns: "str | None"
) -> "Recipe":
    """Write a recipe for your own data, as ``edgeveil recipe new`` does.

    ``data`` are arrays by name (``x`` (N, ...), ``y`` and ``z`` (N,), and the others of docs/get-started/
    your-own-data.md), a data frame (a row a sample; pandas' or another with ``to_csv``), or an address such as
    ``"npz:mine.npz"``. Arrays and frames are written next to ``out``, as .npz or .csv. ``columns`` name those of a
    frame or file: ``target``, ``sensitive``, ``subject`` and ``session``. ``kind`` is a perturber's; ``trial`` tries
    small classifiers first, for at most a minute.

    Returns the recipe. Raises ``BadInput``: a file exists, or the data cannot be used.

        >>> y, z = numpy.arange(400) % 2, numpy.arange(400) // 2 % 2
        >>> x = numpy.random.default_rng(0).normal(size=(400, 6)).astype("float32") + y[:, None]
        >>> new_recipe({"x": x, "y": y, "z": z}, "mine.toml", kind="label-only")
        <Recipe mine-label-only: label-only keeps y, hides z>
    """
    from pathlib import Path

    from edgeveil.trainer.recipe.schema import Recipe
    from edgeveil.trainer.scaffold.given import Given
    from edgeveil.trainer.scaffold.new import write_recipe

    place = Path(out)
    address = data if isinstance(data, str) else _address(data, place)
    try:
        write_recipe(Given(address, **columns), place, kind=kind, trial=trial)  # type: ignore[arg-type]
    except BaseException:
        if address is not data:  # else the next call with mended data would find it there
            Path(address.partition(":")[2]).unlink(missing_ok=True)
        raise
    return Recipe.find(place)


def _address(data: "Any", place: "Path") -> str:
    """The address of arrays by name or of a data frame, which are written next to ``place``. Raises ``BadInput``."""
    from collections.abc import Mapping

    from edgeveil.edge_runtime.errors import BadInput

    is_frame = hasattr(data, "to_csv")
    if not is_frame and not isinstance(data, Mapping):
        raise BadInput(
            "Arrays by name, a data frame with to_csv, or an address such as npz:mine.npz were expected; got "
            f"{type(data).__module__}.{type(data).__qualname__}. Write it as .csv or .parquet, and give csv:FILE."
        )
    file = place.with_suffix(".csv" if is_frame else ".npz")
    if file.exists() or place.exists():
        raise BadInput(f"{file if file.exists() else place} exists and is not overwritten. Name another recipe.")
    if is_frame:
        data.to_csv(file, index=False)
    else:
        import numpy as np

        np.savez(file, **data)
    return f"{file.suffix[1:]}:{file}"


def _shape(recipe: "Recipe", name: str) -> "tuple[int, ...]":
    """The shape of samples that D_y ("target") or D_z of a recipe takes, channels last. The data are read for it."""
    from edgeveil.trainer import datasets

    section, own = getattr(recipe.classifiers, name), datasets.load(recipe).input.shape
    return (*section.size, own[-1]) if section is not None and section.size is not None else tuple(own)


def load_recipe(recipe: "str | Path", settings: "Mapping[str, Any] | None" = None) -> "Recipe":
    """Read and check a recipe: what is trained on which data.

    ``recipe`` is the name of one that comes with EdgeVeil (``edgeveil recipe list``) or the path of a TOML file.
    ``settings`` changes keys of it, written with dots: ``{"perturber.distance": 2.5}``.

    Returns the recipe, which cannot be changed. Raises ``BadInput`` that names the key, what was expected and what
    came.

        >>> recipe = load_recipe("digits-label-only", {"seed": 3})
        >>> recipe.perturber.kind, recipe.data.target, recipe.data.sensitive, recipe.seed
        ('label-only', 'parity', 'less-than-five', 3)
    """
    from edgeveil.trainer.ext.sweep.axes import with_settings
    from edgeveil.trainer.recipe.schema import Recipe

    base_recipe = Recipe.find(recipe)
    return with_settings(base_recipe, settings) if settings else base_recipe


def train(
    recipe: "Recipe | str | Path",
    out: "str | Path",
    *,
    budget: str = "full",
    resume: bool = False,
    replace: bool = False,
    classifiers: "str | Path | None" = None,
    target: "Any" = None,
    sensitive: "Any" = None,
    distribute: bool = False,
) -> "Run":
    """Train the classifiers and the perturber that a recipe describes, as ``edgeveil train`` does.

    ``recipe`` is a recipe or what ``load_recipe`` takes. ``out`` is the folder of the run; it must not exist, unless
    ``resume`` continues from its last checkpoint or ``replace`` gives an earlier run a dated name. ``budget`` is
    ``"full"``, or ``"quick"`` for a trial. ``classifiers`` is the folder of a run whose classifiers to take: the same
    data, slices and seed. ``target`` and ``sensitive`` are Keras models, or modules of PyTorch (channels first), that
    you have trained as D_y and D_z: they are saved next to ``out`` as .keras, and take samples from 0 to 1, or as
    ``[classifiers.target]`` of the recipe states.
    ``distribute`` trains on all devices.

    Returns the run: ``run.folder``, ``run.recipe``, ``run.facts`` (run.json). Raises ``BadInput``, and ``LimitNotMet``
    if no checkpoint reaches the recipe's limits under the full budget: the run is then complete.

        >>> settings = {"budget.quick.rows": 600, "budget.quick.classifier_epochs": 10}
        >>> run = train(load_recipe("digits-label-only", settings), "runs/digits", budget="quick")
        >>> run.facts["state"]
        'finished'
    """
    from contextlib import ExitStack
    from functools import partial
    from pathlib import Path

    from edgeveil.trainer.ext.sweep.axes import with_settings
    from edgeveil.trainer.recipe.schema import Recipe
    from edgeveil.trainer.train import train as train_recipe

    base_recipe, place, given = recipe if isinstance(recipe, Recipe) else Recipe.find(recipe), Path(out), {}
    with ExitStack() as stack:
        for name, model in (("target", target), ("sensitive", sensitive)):
            if model is not None:
                from edgeveil.trainer.networks.own import saved

                file = place.with_name(f"{place.name}-{name}.keras")
                takes = partial(_shape, base_recipe.with_budget(budget), name)
                stack.enter_context(saved(model, file, takes, replace=replace or resume, kept=place))
                given[f"classifiers.{name}.trained"] = str(file.resolve())
        return train_recipe(
            with_settings(base_recipe, given) if given else base_recipe,
            place,
            budget=budget,
            resume=resume,
            replace=replace,
            classifiers=None if classifiers is None else Path(classifiers),
            distribute=distribute,
        )


def export(
    run: "Run | str | Path",
    profiles: "Sequence[str]",
    out: "str | Path",
    *,
    all_formats: bool = False,
    emit: str = "frame",
    pool: "int | None" = None,
    replace: bool = False,
    keep_float: "Sequence[str]" = (),
) -> "ExportFolder":
    """Export a run for boards as TFLite and ONNX, checked and compared with Keras, as ``edgeveil export`` does.

    ``run`` is a finished run or its folder, ``profiles`` lists boards by name (``edgeveil board list``) or TOML file,
    ``out`` is the folder to write, whole or not at all. ``all_formats`` makes every format. ``emit`` is ``"frame"``,
    ``"both"`` for the label of the recipe's head too, or ``"code"`` for a cleaner or codebook that sends its code
    alone; ``pool`` is how many samples of each code the receiver of a codebook draws from. ``replace`` gives an earlier
    export there a dated name. ``keep_float`` names operations of export.json's ``layers`` that stay float32 in int8.

    Returns the export folder: ``manifest``, ``members``, ``report`` (export.json). Raises ``BadInput``.

        >>> exported = export("runs/digits", ["workstation"], "runs/digits-export")
        >>> exported.manifest["preference"]
        ['tflite-int8', 'tflite-float32', 'onnx-float32']
    """
    from pathlib import Path

    from edgeveil.trainer.export.export import export as export_run
    from edgeveil.trainer.perturbers.codebook.synthesis import receiver_pool
    from edgeveil.trainer.runs.run import Run

    boards = [profiles] if isinstance(profiles, str) else list(profiles)
    folder = run.folder if isinstance(run, Run) else Path(run)
    samples = None if pool is None else receiver_pool(Run.open(folder), pool)
    return export_run(
        folder,
        boards,
        Path(out),
        all_formats=all_formats,
        emit=emit,
        pool=samples,
        replace=replace,
        keep_float=keep_float,
    )


def wrap(
    model: "Any",
    data: "Any",
    out: "str | Path",
    *,
    profiles: "Sequence[str]" = (),
    settings: "Mapping[str, Any] | None" = None,
    target: "str | None" = None,
    sensitive: "str | None" = None,
    classifiers: "str | Path | None" = None,
    budget: str = "full",
    replace: bool = False,
) -> "ExportFolder":
    """Make an export folder of a finished model, or of a function such as a blur, as ``edgeveil wrap`` does.

    ``model`` is a file .keras, .pt2, .onnx or .tflite; a Keras model or a module of PyTorch, which is saved next to
    ``out`` as .keras; or ``"blur:sigma=6"``, ``"mosaic:8"``, ``"silhouette"``. ``data`` are a recipe or what
    ``new_recipe`` takes, with ``target`` and ``sensitive``. ``profiles`` lists boards that must run it; none: every
    board that can. ``settings`` has what the model expects, ``{"low": -1, "high": 1, "layout": "first"}``, and keys of
    the recipe. D_y and D_z are trained for the audit under ``budget``, or taken from the run ``classifiers``. The run
    goes next to ``out``.

    Returns the export folder. Raises ``BadInput``.

        >>> wrap("blur:sigma=1", load_recipe("runs/digits/recipe.toml"), "runs/blur-export", profiles=["workstation"],
        ...      classifiers="runs/digits", budget="quick").manifest["perturber"]["kind"]
        'wrapped'
    """
    from pathlib import Path

    from edgeveil.trainer.recipe.schema import Recipe
    from edgeveil.trainer.wrap import wrap as wrap_model

    place = Path(out)
    source = data if isinstance(data, str | Recipe) else _address(data, place)
    try:
        return wrap_model(
            str(model) if isinstance(model, Path) else model,
            source,
            place,
            profiles=profiles,
            settings=settings,
            target=target,
            sensitive=sensitive,
            classifiers=None if classifiers is None else Path(classifiers),
            budget=budget,
            replace=replace,
        )
    except BaseException:
        if isinstance(source, str) and source is not data:  # else the next call would find it there
            Path(source.partition(":")[2]).unlink(missing_ok=True)
        raise


def audit(
    folder_or_bundle: "ExportFolder | str | Path",
    *,
    artefact: str = "tflite-int8",
    budget: str = "quick",
    seed: int = 0,
    run: "str | Path | None" = None,
    trust: "str | Path | None" = None,
    jobs: "int | None" = None,
) -> "dict[str, Any]":
    """Attack one artefact: how much does an adversary trained on its output learn about z?

    ``folder_or_bundle`` is what ``export`` returned or its folder, or a sealed bundle, for which ``run`` (the folder of
    its run) and ``trust`` (a folder of public keys) are needed. ``budget`` is ``"quick"`` or ``"thorough"``; ``seed``
    is that of the adversaries. An interrupted audit continues. ``jobs`` families learn at a time, each in a process of
    its own; all learn in this one where it is None.

    Returns the audit, a dictionary of docs/reference/schemas/audit.schema.json, and writes no file there: ``edgeveil
    audit`` writes the ``audit.json`` that ``edgeveil seal`` needs. Raises ``BadInput``, ``BundleRefused``, or
    ``DeviceFailed`` if no interpreter here runs the artefact.

        >>> found = audit("runs/digits-export", artefact="tflite-int8")
        >>> sorted(found["verdict"])[:3], len(found["findings"]) > 50
        (['findings', 'limit', 'line'], True)
    """
    from pathlib import Path

    from edgeveil.trainer.audit.audit import audit as run_audit
    from edgeveil.trainer.export.folder import ExportFolder

    return run_audit(
        folder_or_bundle.folder if isinstance(folder_or_bundle, ExportFolder) else Path(folder_or_bundle),
        artefact=artefact,
        budget=budget,
        seed=seed,
        run=None if run is None else Path(run),
        trust=None if trust is None else Path(trust),
        jobs=jobs,
    )


def open_bundle(path: "str | Path", *, trust: "str | Path") -> "Bundle":
    """Verify a sealed bundle and read it, as ``edgeveil bundle verify`` does. ``Perturber.open`` verifies and runs it.

    ``path`` is the .veil file, ``trust`` a folder of the public keys that may sign.

    Returns the bundle: ``manifest``, ``members`` (name to bytes), ``manifest_sha256``, ``key``, ``development``. Raises
    ``BundleRefused`` if it is not exactly what a trusted key signed, ``BadInput`` if there is no such file or folder.

        >>> bundle = open_bundle("digits.veil", trust="keys")
        >>> bundle.manifest.name, bundle.manifest.input.shape
        ('digits-label-only', (8, 8, 1))
    """
    from edgeveil.edge_runtime.bundle.reader import read_bundle
    from edgeveil.edge_runtime.bundle.trust_store import open_trust

    return read_bundle(str(path), open_trust(str(trust)))


def __getattr__(name: str) -> "Any":
    if name in __all__ and name.endswith(("Classifier", "Regression", "SVM", "Lasso")):
        from edgeveil.trainer.ext.private import estimators

        return getattr(estimators, name)
    if name in __all__:  # the calls are found before this is asked
        from edgeveil.edge_runtime import api

        return getattr(api, name)
    raise AttributeError(f"module 'edgeveil' has no attribute {name!r}")


def __dir__() -> "list[str]":
    return sorted(set(globals()) | set(__all__))
