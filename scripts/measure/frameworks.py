"""Networks of PyTorch next to ours: PR-GAN of both, the time of an epoch, and a ResNet-18 as D_y.

Networks are those of ``torch_networks.py``, of other architectures than ours, and become Keras models. Both frameworks
have the same drawn rows, batches and epochs. What ships is attacked as its int8 file, by the
families that were best on record. Each piece is kept in ``--out`` when it is done, so that the script goes on.
Records docs/results/frameworks.json. It needs the environment of scripts/environments/torch:

    EDGEVEIL_DATA=... .venvs/torch/bin/python -m scripts.measure.frameworks
"""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet, PrivacyStop
from edgeveil.trainer.attacks.problem import BUDGETS
from edgeveil.trainer.attacks.registry import adversaries
from edgeveil.trainer.audit.floor import examine
from edgeveil.trainer.audit.subject import KERAS, Subject, perturb_rows
from edgeveil.trainer.audit.verdict import words
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.export.export import export
from edgeveil.trainer.networks.training import build
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from edgeveil.trainer.train import train
from scripts import audit_rows, record
from scripts.pages import average

RESULT = Path("docs/results/frameworks.json")
OWN = "torch_networks.py"
# What replaces [budget.quick], by data: drawn rows of all four slices (MNIST: all that there are), batch and epochs.
QUICK: dict[str, dict[str, int]] = {
    "mnist": {"rows": 70_000, "batch": 64, "classifier_epochs": 3, "epochs": 8},
    "wifi": {"rows": 10_000, "classifier_epochs": 24, "epochs": 36},
    "faces": {"rows": 10_000, "classifier_epochs": 3, "epochs": 1},
}
# The families that read most on record, and cost least.
FAMILIES = {"mnist": ("fixed D_z", "BatchNorm CNN"), "wifi": ("fixed D_z", "random forest")}
PARTS = ("rows", "epochs", "resnet18", "boards")
TIMED = (("mnist", "classifier"), ("wifi", "classifier"))
EPOCHS = 4  # timed, of which the fastest counts; the first also compiles


def recipe(
    data: str, framework: str, seed: int, classifier: str = "classifier", generator: str = "generator"
) -> Recipe:
    """That of PR-GAN in the library; of torch with the networks of ``OWN``."""
    table = Recipe.find(f"{data}-prgan").model_dump(exclude_none=True) | {"seed": seed}
    epochs = {name: count for name, count in QUICK[data].items() if name != "rows"}
    table["budget"] = {**table["budget"], **epochs, "quick": QUICK[data]}
    if framework == "torch":
        table["classifiers"]["architecture"] = f"{OWN}:{classifier}"
        if data != "faces":  # whose sides no U-Net of two halvings gives back
            table["perturber"]["generator"] = {"architecture": f"{OWN}:{generator}"}
    return Recipe.of_table(table, folder=Path(__file__).parent)


class Clock:
    """Seconds since it was made, by the wall and of the processor: of all threads, and little of what else runs."""

    def __init__(self) -> None:
        self.began = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        """Both."""
        ends = time.perf_counter(), time.process_time()
        return dict(zip(("wall", "processor"), np.subtract(ends, self.began).tolist(), strict=True))


def trained(found: Recipe, folder: Path) -> tuple[Run, dict[str, float]]:
    """The run and its seconds, from an earlier call where that got as far; one that misses its limit counts too."""

    def make() -> dict[str, float]:
        clock = Clock()
        try:
            train(found, folder, budget="quick", replace=True)
        except LimitNotMet as missed:
            say(str(missed))
        return clock.read()

    seconds = record.kept(folder.with_name(f"{folder.name}-seconds.json"), make)
    return Run.open(folder), seconds


def examined(run: Run, subject: Subject, data: str, seed: int) -> dict[str, Any]:
    """y and z read from what the file gives for every slice."""
    dataset, classifiers = run.dataset(), run.classifiers()
    released = perturb_rows(subject, run, dataset, dataset.slices.rows()).released
    chosen = tuple(one for one in adversaries() if one.name in FAMILIES[data])
    found = examine(dataset, released, classifiers, BUDGETS["quick"], seed, families=lambda _: chosen)
    part = audit_rows.part(found.findings("y", "z"), "y", "z")
    rows = {"rows": {"all": len(dataset.slices.rows()), "test": len(dataset.slices.test)}}
    return {**rows, **{name: part[name] for name in ("target", "chance", "adversaries", "worst_adaptive")}}


def compared(data: str, framework: str, seed: int, out: Path) -> dict[str, Any]:
    """PR-GAN of one framework: its time, what its file keeps and hides, and how far it is from the Keras model.

    Where export refuses it, as Table 2 has it: the perturber as it was trained, and the reason.
    """
    say(f"PR-GAN: {data}, {framework}, seed {seed}")
    place = out / f"{data}-{framework}-{seed}"
    run, seconds = trained(recipe(data, framework, seed), place)
    networks = {name: model.count_params() for name, model in (("D_y", run.classifiers()["target"]), *made_of(run))}
    facts = {"seconds": seconds, "parts": run.facts["wall_time_s"], "parameters": networks}
    try:
        made = export(run.folder, ["workstation"], place.with_name(f"{place.name}-export"), replace=True)
        subject = Subject(made.manifest, made.members, "tflite-int8")
        facts |= {"sha256": subject.sha256(), "parity": made.report["parity"]}
    except (BadInput, PrivacyStop) as error:
        subject = Subject({}, {}, KERAS)
        facts["not_exported"] = str(error)
    return {"data": data, "framework": framework, "seed": seed, **facts, "audit": examined(run, subject, data, seed)}


def made_of(run: Run) -> Iterable[tuple[str, Any]]:
    """The networks that ship."""
    return run.perturber().models.items()


# One epoch of the same D_y, by the same Adam on the same batches.


def epoch_times(data: str, classifier: str) -> dict[str, Any]:
    """Seconds of one epoch in PyTorch, eager and compiled, and of its Keras model as ``train`` trains it."""
    import torch

    say(f"An epoch of {classifier} on {data}")
    found = recipe(data, "torch", 0, classifier).with_budget("quick")
    from edgeveil.trainer import datasets
    from edgeveil.trainer.networks.own import Spec
    from scripts.measure import torch_networks

    dataset = datasets.load(found).for_training()
    fit, _ = fit_and_validation(dataset, "classifiers")
    u, batch, classes = dataset.unit(fit.x).astype(np.float32), found.budget.batch, len(dataset.y_names)
    steps = len(u) // batch
    module = getattr(torch_networks, classifier)(Spec(tuple(dataset.input.shape), classes))
    x = torch.from_numpy(np.moveaxis(u, -1, 1).copy() if u.ndim > 2 else u)
    y = torch.from_numpy(fit.y.astype(np.int64))
    module(x[:2])

    def of_torch(network: Any) -> Callable[[], None]:
        optimizer = torch.optim.Adam(module.parameters(), 1e-3)
        module.train()

        def epoch() -> None:
            for rows in torch.randperm(len(x))[: steps * batch].reshape(steps, batch):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(network(x[rows]), y[rows]).backward()
                optimizer.step()

        return epoch

    model = build(found.classifiers.architecture, dataset.input, classes)
    ways = {"PyTorch, eager": of_torch(module), "PyTorch, compiled": of_torch(torch.compile(module))}
    times = {name: timed(epoch) for name, epoch in {**ways, "Keras model": of_keras(model, u, fit.y, batch)}.items()}
    facts = {"rows": len(u), "batch": batch, "parameters": sum(one.numel() for one in module.parameters())}
    return {"data": data, "network": classifier, **facts, "threads": torch.get_num_threads(), "seconds": times}


def timed(epoch: Callable[[], None]) -> dict[str, dict[str, float]]:
    """The first epoch, in which graphs are compiled, and the least of those after it."""
    first, *others = [_seconds(epoch) for _ in range(EPOCHS)]
    return {"first": first, "least": {name: min(one[name] for one in others) for name in first}}


def _seconds(epoch: Callable[[], None]) -> dict[str, float]:
    clock = Clock()
    epoch()
    return clock.read()


def of_keras(model: Any, u: np.ndarray, labels: np.ndarray, batch: int) -> Callable[[], None]:
    """An epoch by the step of ``training.train_one``."""
    import keras
    import tensorflow as tf

    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    inputs, targets, steps = tf.constant(u), tf.constant(labels, tf.int32), len(u) // batch

    @tf.function(reduce_retracing=True)
    def step(rows: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model(tf.gather(inputs, rows), training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.gather(targets, rows), logits))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    def epoch() -> None:
        for rows in np.random.default_rng(0).permutation(len(u))[: steps * batch].reshape(steps, batch):
            float(step(tf.constant(rows)))

    return epoch


# Boards.


def on_boards(out: Path) -> dict[str, Any]:
    """A generator of PyTorch for MNIST on an emulated Raspberry Pi, and Coral's lint of it.

    It goes the way of a user, by commands; ``audit board`` compares the test slice with this machine's outputs.
    """
    say("A generator of PyTorch on an emulated Raspberry Pi")
    place = (out / "boards").resolve()
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    run, seconds = trained(recipe("mnist", "torch", 0, generator="resizing"), out / "mnist-resizing")
    exported, sealed, root = place / "export", place / "torch.veil", place / "root"
    made = export(run.folder, ["raspberry-pi-cpu", "coral-dev-board"], exported, replace=True)

    def edgeveil(*arguments: object, codes: Sequence[int] = (0,)) -> str:
        command = [sys.executable, "-m", "edgeveil.trainer.cli.main", *map(str, arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode not in codes:
            raise BadInput(
                f"edgeveil {' '.join(map(str, arguments))} ended with {done.returncode}; the reason is above."
            )
        return done.stdout

    edgeveil("key", "new", place / "keys", "--no-passphrase")
    edgeveil("trust", "init", root, "--key", place / "keys/signing.pub", "--no-passphrase")
    edgeveil("seal", exported, "--no-audit", "--key", place / "keys/signing.key", "--out", sealed)
    edgeveil("board", "wheels", "raspberry-pi-cpu", "--out", place / "wheels")
    device = [sys.executable, "scripts/emulated_device"]
    name = ["--name", "frameworks"]
    up = subprocess.run([*device, "up", *name, "--port", "0"], stdout=subprocess.PIPE, check=True)
    os.environ["EDGEVEIL_BOARDS"] = json.loads(up.stdout)["boards"]
    trusted = ["--on", "emulated", "--trust", root]
    try:
        more = ["--for", "raspberry-pi-cpu", "--wheels", place / "wheels", "--no-service"]
        edgeveil("flash", sealed, *trusted, *more)
        audited = edgeveil("audit", "board", sealed, *trusted, "--run", run.folder, "--json", codes=(0, 3))
    finally:
        subprocess.run([*device, "down", *name], stdout=subprocess.DEVNULL, check=False)
    document = json.loads(audited)
    reports = {key: made.report[key] for key in ("parity", "lint")}
    return {"seconds": seconds, **reports, "on_board": document["on_board"], "verdict": words(document)}


# The whole.


def resnet(out: Path) -> dict[str, Any]:
    """A ResNet-18 as D_y and D_z of faces for a few epochs; PR-GAN against it, exported."""
    say("A ResNet-18 on faces")
    run, seconds = trained(recipe("faces", "torch", 0, "resnet18"), out / "faces-resnet18")
    made = export(run.folder, ["raspberry-pi5", "coral-dev-board"], out / "faces-resnet18-export", replace=True)
    kept = {name: one["validation_accuracy"] for name, one in run.facts["classifiers"].items()}
    facts = {"budget": QUICK["faces"], "seconds": seconds, "parts": run.facts["wall_time_s"], "classifiers": kept}
    facts |= {"parameters": run.classifiers()["target"].count_params(), "validation": run.facts["validation"]}
    return {**facts, "parity": made.report["parity"], "lint": made.report["lint"]}


def over_seeds(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each data set, what the mean of the seeds of torch is above that of Keras, in points."""
    found = []
    for data in dict.fromkeys(row["data"] for row in rows):
        mean: dict[str, dict[str, Any]] = {}
        for framework in ("keras", "torch"):
            mine = [row for row in rows if (row["data"], row["framework"]) == (data, framework)]
            fixed = [next(one for one in row["audit"]["adversaries"] if one["kind"] == "fixed") for row in mine]
            mean[framework] = {
                "y": float(np.mean([row["audit"]["target"]["accuracy"] for row in mine])),
                "fixed": float(np.mean([one["accuracy"] for one in fixed])),
                "best": float(np.mean([row["audit"]["worst_adaptive"]["accuracy"] for row in mine])),
                "wall": float(np.mean([sum(row["parts"].values()) for row in mine])),
                "processor": average([row["seconds"].get("processor") for row in mine]),
            }
        worse = {name: 100 * (mean["torch"][name] - mean["keras"][name]) for name in ("y", "fixed", "best")}
        found.append({"data": data, **mean, "points": worse})
    return found


def main() -> None:
    """Make the pieces that are missing, and the record of these and of those that it has."""
    script = record.Script(__file__, __doc__, out=RESULT)
    script.add_argument("--runs", type=Path, default=Path("runs/frameworks"), help="runs, exports and pieces")
    script.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    script.add_argument("--data", nargs="+", choices=list(FAMILIES), default=list(FAMILIES), help="of the rows")
    script.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2], help="of the rows")
    options = script.parse_args()
    load_tensorflow()
    out = options.runs
    out.mkdir(parents=True, exist_ok=True)
    document = record.read(options.out)

    def piece(name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        return record.kept(out / f"{name}.json", make)

    if "rows" in options.parts:
        asked = [(data, way, k) for data in options.data for way in ("keras", "torch") for k in options.seeds]
        made = [piece("-".join(map(str, one)), lambda one=one: compared(*one, out)) for one in asked]
        names = ("data", "framework", "seed")
        older = [row for row in document.get("rows", []) if tuple(row[name] for name in names) not in asked]
        rows = sorted([*older, *made], key=lambda row: [str(row[name]) for name in names])
        document |= {"budgets": QUICK, "families": FAMILIES, "rows": rows, "means": over_seeds(rows)}
    if "epochs" in options.parts:
        timed_of = [piece(f"epoch-{of[0]}", lambda of=of: epoch_times(*of)) for of in TIMED]
        document |= {"timed": EPOCHS, "epochs": timed_of}
    if "resnet18" in options.parts:
        document |= {"resnet18": piece("resnet18", lambda: resnet(out))}
    if "boards" in options.parts:
        document |= {"boards": piece("boards", lambda: on_boards(out))}
    document |= record.here()
    document["versions"] |= {"torch": importlib.metadata.version("torch")}
    record.write(options.out, script.path, document)


if __name__ == "__main__":
    record.run(main)
