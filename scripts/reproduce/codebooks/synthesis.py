"""What a codebook is good for by how its x' is made: donors, a receiver's pool, centroids or a decoder, beside raw and
label-only.

The codes are those of DATA-codebook whatever is drawn for them, so what leaks is the same up to training noise; what
differs is what x' can be used for. Each way is trained on the D_y and D_z of the recorded codebook's run, exported, and
its int8 artefact measured through the edge runtime: Table 5's networks, a fresh discriminator, what is kept, and the
counting attack again. For a receiver's pool (`export --emit code --pool`), the codes are those of the donors. The same
networks on raw readings, and on label-only as mean and as donor, stand beside them once a seed. Where a way cannot be
trained (a code of too few people), the record says why. Written row by row: run again, the script goes on; a row of
another recipe, or one that was refused, is measured anew. The runs are those that codebooks/seeds.py left in --out, or
are made there.

    EDGEVEIL_DATA=... python -m scripts.reproduce.codebooks.synthesis --out runs/codebook --data faces --seeds 0
"""

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.audit import subject
from edgeveil.trainer.audit.sections import retained
from edgeveil.trainer.audit.sections.utility import EFFORT
from edgeveil.trainer.datasets.base import PARTS, Dataset
from edgeveil.trainer.export.export import export as export_run
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.perturbers.codebook.receiver_pool import receiver_pool
from edgeveil.trainer.perturbers.label_only import from_classifier
from edgeveil.trainer.progress import say
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow
from edgeveil.trainer.train import train
from scripts.reproduce import record
from scripts.reproduce.codebooks.seeds import SHIPS, hashes, made, measured, pipeline

RECORD = Path("docs/results/privacy/synthesis.json")
DATA = ("mnist", "wifi", "faces", "depth")
RECEIVER, POOL = "receiver", 512  # samples of each code
WAYS = ("donor", RECEIVER, "centroid", "decoder")
BESIDE = "beside"  # raw readings and label-only
OF_BESIDE = ("data", "prior", "classifiers", "budget")  # the parts of a recipe that these depend on


def by_receiver(recipe: Recipe, seed: int, out: Path) -> ExportFolder:
    """The export of the recorded codebook that sends its codes alone, and whose receiver draws from a pool."""
    run, _ = made(recipe, seed, out)
    folder = out / f"{recipe.name}-{RECEIVER}-{seed}-export"
    if not (folder / "manifest.json").is_file():
        try:
            export_run(run.folder, ["workstation"], folder, emit="code", pool=receiver_pool(run, POOL))
        except BadInput as error:
            raise Refused(str(error)) from None
    return ExportFolder.open(folder)


def made_so(recipe: Recipe, way: str, seed: int, out: Path) -> tuple[Run, ExportFolder]:
    """Run and export of one way, made now or earlier; the recipe's own way is the recorded codebook itself.

    Raises ``Refused`` where the way cannot be trained for this codebook.
    """
    own = made(recipe, seed, out)
    if way in (recipe.perturber.synthesis, RECEIVER):
        return own
    own[0].dataset()  # what is wrong with the data is no fault of the way
    other = recipe.model_copy(
        update={"perturber": recipe.perturber.model_copy(update={"synthesis": way}), "seed": seed}
    )
    folder = out / f"{recipe.name}-{way}-{seed}"
    exported = folder.with_name(f"{folder.name}-export")
    begun = (folder / "run.json").is_file()
    if not (begun and Run.open(folder).facts["state"] == "finished"):
        try:
            train(other, folder, resume=begun, classifiers=None if begun else own[0].folder)
        except LimitNotMet as error:
            say(str(error))  # the row says how often y-hat is right
        except BadInput as error:
            raise Refused(str(error)) from None
    if not (exported / "manifest.json").is_file():
        export_run(folder, ["workstation"], exported)
    return Run.open(folder), ExportFolder.open(exported)


class Refused(Exception):
    """This way cannot be trained for these codes."""


def row(recipe: Recipe, way: str, seed: int, out: Path, budget: str) -> dict[str, Any]:
    """Everything about one way of one seed."""
    try:
        run, export = made_so(recipe, way, seed, out)
        drawn = by_receiver(recipe, seed, out) if way == RECEIVER else export
    except Refused as error:
        say(str(error))
        return {"refused": str(error)}
    dataset = run.dataset()
    found, _ = measured(run, pipeline(run, export, SHIPS))
    left = subject.perturb_rows(
        subject.Subject(drawn.manifest, drawn.members, SHIPS), run, dataset, dataset.slices.rows()
    ).released
    return {
        "label_accuracy": found["label_accuracy"],
        "chance": found["chance"],
        "attack": found["attack"],
        "bits_over_null": found["bits_over_null"],
        "slices": sizes(dataset),
        "collateral": retained.section(dataset, left.x, budget, seed, named=tuple(recipe.perturber.keep)),
        "training_s": run.facts["wall_time_s"],
        "sha256": hashes(drawn)[SHIPS],
    }


def beside(recipe: Recipe, seed: int, out: Path, budget: str) -> dict[str, Any]:
    """Raw readings, and label-only as mean and as donor, on the same data and D_y."""
    run, _ = made(recipe, seed, out)
    dataset = run.dataset()
    floor = from_classifier(dataset.for_training(), run.classifiers()["target"])
    outputs = subject.in_chunks(floor.perturb, dataset.x[dataset.slices.rows()])
    return {
        "slices": sizes(dataset),
        "collateral": retained.label_only(dataset, outputs["frame"], outputs["label"], budget, seed),
    }


def same(before: Mapping[str, Any], now: Mapping[str, Any], way: str) -> bool:
    """Whether two recipes differ in nothing that a way depends on."""
    return before == now if way != BESIDE else all(before.get(part) == now.get(part) for part in OF_BESIDE)


def sizes(dataset: Dataset) -> dict[str, int]:
    """Rows of each slice."""
    return {name: len(dataset.part(name)) for name in PARTS}


def _read(path: Path) -> list[dict[str, Any]]:
    return record.read(path).get("rows", [])


def main() -> None:
    """Measure the rows that are missing."""
    script = record.Script(__file__, __doc__, "--out runs/codebook --data wifi --seeds 0")
    script.add_argument("--out", type=Path, required=True, help="folder for runs and exports")
    script.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    script.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    script.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    script.add_argument("--budget", choices=sorted(EFFORT), default="quick", help="how long networks train on x'")
    script.add_argument("--record", type=Path, default=RECORD)
    asked = script.parse_args()
    load_tensorflow()
    for seed in asked.seeds:
        for data in asked.data:
            recipe = Recipe.find(f"{data}-codebook")
            settings = recipe.model_dump(mode="json", exclude={"seed"}, exclude_none=True)
            for way in (BESIDE, *asked.ways):
                about = {"data": data, "seed": seed, "synthesis": way, "budget": asked.budget}
                if any(
                    one | about == one and same(one["settings"], settings, way) and "refused" not in one
                    for one in _read(asked.record)
                ):
                    continue
                say(f"{recipe.name}, seed {seed}: {way}")
                started = time.monotonic()
                measure = beside if way == BESIDE else partial(row, way=way)
                found = measure(recipe, seed=seed, out=asked.out, budget=asked.budget)
                about["settings"] = settings
                about["wall_s"] = round(time.monotonic() - started, 1)
                write(asked.record, {**about, **found, **record.here()})


def write(path: Path, new: dict[str, Any]) -> None:
    """Put a row into the record, in the place of an older one; others' rows stay."""

    def key(one: dict[str, Any]) -> tuple[Any, ...]:
        return one["data"], one["seed"], (BESIDE, *WAYS).index(one["synthesis"])

    rows = sorted([*(one for one in _read(path) if key(one) != key(new)), new], key=key)
    by = Path(__file__).resolve().relative_to(record.ROOT).as_posix()
    record.write(path, by, {"kind": "edgeveil-synthesis-record", "rows": rows})


if __name__ == "__main__":
    record.run(main)
