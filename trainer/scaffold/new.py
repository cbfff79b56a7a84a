"""``edgeveil recipe new``: inspect a user's data and write a commented recipe that trains on it."""

from __future__ import annotations

import itertools
import json
import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.edge_runtime.manifest.manifest import AND
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.trainer import datasets
from edgeveil.trainer.datasets.base import PARTS, Dataset, InputSpec
from edgeveil.trainer.datasets.joint import finest, follows
from edgeveil.trainer.measures import certificate
from edgeveil.trainer.measures.enough import LEARN_ROWS, LEARN_UNITS, RATE, SHOWN_ROWS, SLICE_ROWS
from edgeveil.trainer.networks.training import beats_guessing
from edgeveil.trainer.perturbers.codebook import CODES, synthesis
from edgeveil.trainer.recipe import messages
from edgeveil.trainer.recipe.perturber import KINDS, of_kind, title
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.scaffold import first_look
from edgeveil.trainer.scaffold.given import PEOPLE, Given, capture_section, data_section, smaller, turned_round

# What data cannot support, said before any training, with what to do.


TELLING = 0.95  # share of rows in which z follows from y alone


def check(dataset: Dataset) -> None:
    """Raise ``BadInput`` where too few rows or people are left for an adversary to learn on: no audit, so no bundle."""
    rows = dataset.slices.training()
    units = len(rows) if dataset.cluster is None else len(np.unique(dataset.cluster[rows]))
    if len(rows) >= LEARN_ROWS and units >= LEARN_UNITS:
        return
    of = dataset.cluster_kind
    share = len(dataset.slices.rows()) / len(rows)  # of all to those of training
    total = f"{math.ceil(LEARN_ROWS * share)} rows" + (f" of {math.ceil(LEARN_UNITS * share)} {of}s" if of else "")
    raise BadInput(
        f"The audit needs at least {LEARN_ROWS} rows of {LEARN_UNITS} subjects or sessions to learn on, and "
        f"the training slices have {len(rows)} rows{f' of {units} {of}s' if of else ''}: {total} in all are enough."
    )


def of_data(dataset: Dataset) -> list[str]:
    """Sentences about rare classes, few people, and a z that y almost determines."""
    return [*_rare(dataset), *_people(dataset), *_pairs(dataset), *_told(dataset)]


def _rare(dataset: Dataset) -> list[str]:
    rows = dataset.slices.rows()
    sentences = []
    for of, labels, names in (("y", dataset.y, dataset.y_names), ("z", dataset.z, dataset.z_names)):
        counts = np.bincount(labels[rows], minlength=len(names))
        few = [f'"{name}" {count}' for name, count in zip(names, counts, strict=True) if count < RATE]
        if few:
            listed = ", ".join(few[:3]) + (f" and {len(few) - 3} more" if len(few) > 3 else "")
            sentences.append(
                f"Classes of {of} with fewer than {RATE} rows: {listed}. What is said of them is mostly chance: "
                "add rows, merge classes, or leave these out."
            )
    return sentences


def _people(dataset: Dataset) -> list[str]:
    if dataset.cluster is None or dataset.cluster_kind != "subject":
        return []
    people = len(np.unique(dataset.cluster[dataset.slices.rows()]))
    if people >= RATE:
        return []
    return [
        f"There are {people} people, and no one is in two slices: figures about people never seen are wide. Add "
        f"people: for a certificate {certificate.units_needed()} are needed in the test slice."
    ]


def _pairs(dataset: Dataset) -> list[str]:
    """A pair of y and z that no training row has is impossible for who knows z given y, and then comes all the same."""
    pair = dataset.y * len(dataset.z_names) + dataset.z
    known, met = np.unique(pair[dataset.slices.training()]), pair[dataset.slices.test]
    new = ~np.isin(met, known)
    if not new.any():
        return []
    return [
        f"{new.mean():.0%} of the test rows have a pair of y and z that no training row has, so z given y cannot be "
        f"counted for them: add rows{' of more ' + dataset.cluster_kind + 's' if dataset.cluster_kind else ''} of each "
        "pair, or merge classes of z."
    ]


def _told(dataset: Dataset) -> list[str]:
    rows = dataset.slices.training()
    counts = np.zeros((len(dataset.y_names), len(dataset.z_names)))
    np.add.at(counts, (dataset.y[rows], dataset.z[rows]), 1.0)
    told, guessing = counts.max(axis=1).sum() / counts.sum(), counts.sum(axis=0).max() / counts.sum()
    if told < TELLING or told < guessing + (1 - guessing) / 2:
        return []
    return [
        f"z follows from y alone in {told:.1%} of rows ({guessing:.1%} by guessing): who gets y has nearly all "
        "of z. Keep a coarser y, or hide another z."
    ]


USES = "for the classifiers, the perturber, adversaries alone, and the test"
USES_OF_THREE = (
    "for the classifiers, the perturber and the test; too few for a fourth, so adversaries learn on folds of the test"
)
STEPS = {"classifiers": 1500, "perturber": 2500}  # training steps that suit small data sets
QUICK_ROWS, QUICK_STEPS = 3000, {"classifiers": 400, "perturber": 500}
LABEL_ONLY = "label-only"  # the kind that is left where another one does not keep y

TEMPLATE = Path(__file__).with_name("recipe.template").read_text(encoding="utf-8")


FLOOR = (
    "The accuracy of y by the best reader on validation: ten points below what was seen (more where rows are few), "
    "better than guessing. Raise it to what your use needs."
)
ONE_REPORT = "One report tells next to nothing of its reading, so y need not be read from it: only the mean of many is."

ENCODED = """
# How cells become features, on the board as here. What is named was seen in training rows and ships with the bundle:
# see that no value is one person's own. Other values are 0 everywhere, missing cells have `fill`.
[data.columns.encode"""
CAPTURE = """
# What the camera gives, and how it becomes a sample: the same on the board as in training, and signed with the bundle.
"""


@dataclass(frozen=True)
class Draft:
    """A recipe at ``out`` without what is tried: ``fields`` of the template, and those ``of`` each kind, the usual one
    first. ``look`` is the trees' at y and z, ``tried`` the networks."""

    out: Path
    fields: Mapping[str, Any]
    of: Mapping[str, Mapping[str, Any]]
    look: Mapping[str, first_look.Look]
    tried: Sequence[first_look.Tried]
    network: str
    notes: tuple[str, ...]

    def text(self, kind: str, network: str, reads: float, limit: float) -> str:
        """The recipe's text, with what D_y is held to and the limit of y."""
        linear = of_kind(kind).unbounded
        reported = self.of[kind]["floor_is"] is ONE_REPORT
        return TEMPLATE.format(
            **self.fields,
            **self.of[kind],
            classifier="linear" if linear else network,
            seen=""
            if linear
            else f"\nlook = {reads:.3f}          # of y; training stops where D_y lies ten points below",
            floor=0.01 if reported else limit,
        )

    def untried(self) -> str:
        """The text of the usual kind, with what the trees' look allows."""
        on_y = self.look["y"]
        limit = first_look.floor(on_y.accuracy, on_y.chance)
        return self.text(next(iter(self.of)), self.network, on_y.accuracy, limit)

    def recipe(self, text: str) -> Recipe:
        """The recipe of a text, to be checked or tried."""
        return Recipe.parse(text, origin=str(self.out), folder=self.out.parent)


def write_recipe(given: Given, out: Path, *, kind: str | None = None, trial: bool = False) -> tuple[str, ...]:
    """Write a recipe for the data with that kind of perturber (None: the usual one) to ``out``, which must not exist.

    ``trial``: try small classifiers, take the one that reads y best, make a quick run and set the limits by it.
    Returns what a person should know, in sentences. Raises ``BadInput``, and ``LimitNotMet`` where no quick run keeps
    y: nothing is written then.
    """
    out = Path(out)
    _ = given.kind  # raises for what is no data of one's own
    if out.suffix != ".toml":
        raise BadInput(f"--out: expected a name that ends in .toml; got {out}.")
    if out.exists():
        raise BadInput(f"{out} exists; it is not overwritten. Choose another --out, or remove it.")
    draft = compose(given, out, kind=kind, trial=trial)
    text, notes = _quickly(draft) if trial else (draft.untried(), draft.notes)
    draft.recipe(text)
    write_atomic(str(out), text.encode())
    return notes


def _quickly(draft: Draft) -> tuple[str, tuple[str, ...]]:
    """The text of the first kind and network whose quick run keeps y, with the limits that it showed, and the notes.

    Raises ``LimitNotMet`` where none does.
    """
    on_y, tried, runs = draft.look["y"], draft.tried, list[first_look.Seen]()
    reads = first_look.expected(on_y, tried)
    least = first_look.least_kept(max(on_y.accuracy, reads), on_y.chance)
    near = [one.architecture for one in tried if one.accuracy > tried[0].accuracy - first_look.LOOK_POINTS]
    with tempfile.TemporaryDirectory() as folder:
        trained = dict[str, Path]()
        for kind, network in itertools.product(draft.of, near[:2] or [draft.network]):
            first = draft.text(kind, network, reads, first_look.floor(reads, on_y.chance))
            place = Path(folder, f"{kind}-{network}")
            seen = first_look.quick_run(draft.recipe(first), place, trained.get(network))
            if seen is None:
                continue
            runs.append(seen)
            if not of_kind(kind).unbounded:
                trained.setdefault(network, place)
            if seen.kept >= least or draft.of[kind]["floor_is"] is ONE_REPORT:
                return _as_seen(draft, reads, seen)
    # Where so few rows are judged that the best may only have had no luck, its limit is so much lower.
    best = max(runs, key=lambda one: one.kept, default=None)
    if best is not None and beats_guessing(best.kept, on_y.chance) and best.kept + best.room >= least:
        return _as_seen(draft, reads, best)
    raise first_look.none_kept(on_y, tried, runs)


def _as_seen(draft: Draft, reads: float, seen: first_look.Seen) -> tuple[str, tuple[str, ...]]:
    """The text of what was seen to keep y, and the notes."""
    limit = first_look.floor(seen.kept, draft.look["y"].chance, seen.rows)
    text = draft.text(seen.kind, seen.architecture, min(reads, seen.raw), limit)
    said = (
        f"A quick run ({title(seen.kind).lower()}, {seen.architecture}) keeps y in {seen.kept:.1%} of {seen.rows} rows "
        f"(by {seen.reader}); the limit is {limit:.0%}."
    )
    return text, (*draft.notes, said)


def compose(given: Given, out: Path, *, kind: str | None = None, trial: bool = False) -> Draft:
    """The recipe that the data are to have. Raises ``LimitNotMet`` where a trial shows that none would keep y."""
    if kind is not None:
        messages.refuse_old(kind, messages.KINDS, "--kind: the perturber kind")
        if KINDS.find(kind) is None:
            known = ", ".join([*KINDS.kinds(), *KINDS.plugins()])
            raise BadInput(f'--kind: expected one of {known}; got "{kind}".')
    guess = first_guess(given)
    dataset, file = datasets.load(guess), given.path
    if guess.data.columns is not None and guess.data.columns.encode:
        guess = first_guess(given, dataset.slices.training())  # the cut is the same, and nothing is of its test slice
        dataset = datasets.load(guess)
    stream = guess.capture is not None or (guess.data.series is not None and guess.data.series.hop is not None)
    check(dataset)
    notes, kinds = _notes(given, dataset), [kind or LABEL_ONLY]
    if kind is None:
        kind, reason = usual(dataset, stream=stream)
        kinds = list(dict.fromkeys([kind, LABEL_ONLY]))
        notes = (f"The perturber is {title(kind).lower()}: {reason}. Another is asked for with --kind.", *notes)
    names = {"y": guess.data.target, "z": guess.data.sensitive}
    apart = _apart(dataset)
    fitted = 0.8 * len(dataset.slices.perturber)
    spec, image, linear = dataset.input, dataset.input.kind == "image", of_kind(kinds[0]).unbounded
    drafts = {one: of_kind(one).draft(one, dataset, apart=apart, stream=stream) for one in kinds}
    batch, epochs = _budget(fitted, STEPS)
    quick_batch, quick_epochs = _budget(min(fitted, 0.8 * QUICK_ROWS / len(PARTS)), QUICK_STEPS)
    shift = int(image and np.dtype(spec.dtype).kind in "iu")  # the border of a measurement is no black
    both = (("y", dataset.y_names), ("z", dataset.z_names))
    told = of_data(dataset)
    if trial and (hidden := _told(dataset)):
        raise LimitNotMet(f"No recipe is written: {hidden[0]}")
    look = {label: first_look.with_trees(dataset, label, all_) for label, all_ in both}
    tried = []
    if trial and not linear:
        tried = first_look.with_networks(dataset, batch=batch, epochs=epochs["classifiers"], shift=shift)
    if trial:
        first_look.refuse_hopeless(look["y"], tried)
    seen = first_look.notes(look["y"], look["z"], tried, untried=not (trial or linear))
    about = guess.data.labels
    fields = {
        "target": names["y"],
        "sensitive": names["z"],
        "keeps": _quoted(names["y"] if AND not in names["y"] else guess.data.targets),
        "hides": _quoted(names["z"] if AND not in names["z"] else guess.data.sensitives),
        "turned": "\n# Its pictures have channels first; they are turned round, as cameras give them."
        if turned_round(given)
        else "",
        "kind": 'kind = "series"\n' if guess.data.kind else "",
        "series": _section("data.series", guess.data.series),
        "labels": "" if about is None else f"labels = {_quoted(_from(out.parent, Path(about)))}\n",
        "columns": _section("data.columns", guess.data.columns).replace("\n[data.columns.encode", ENCODED, 1),
        "capture": CAPTURE + _section("capture", guess.capture)[1:] if guess.capture else "",
        "file": re.sub(r"[^\w .-]", "_", file.name),
        "rows": len(dataset.y),
        "spec": spec,
        "on_y": look["y"],
        "on_z": look["z"],
        "slices": ", ".join(str(len(dataset.part(part))) for part in PARTS if len(dataset.part(part))),
        "uses": USES if len(dataset.slices.attack) else USES_OF_THREE,
        "cut": f"no {dataset.cluster_kind} in two of them" if dataset.cluster_kind else "cut row by row",
        "unseen": f"over whole {dataset.cluster_kind}s" if dataset.cluster_kind else "by rows",
        "source": _quoted(f"{given.kind}:{_from(out.parent, file)}"),
        "y": _key(dataset.y_names[0]),
        "z": _key(dataset.z_names[0]),
        "p": float(dataset.theta[0, 0]),
        "remark": _remark(look),
        "tried": "".join(f"#   y: {one.accuracy:.1%} by the network {one.architecture}\n" for one in tried),
        "shift": "\nshift = 1             # pixels that training images are moved by; 0 where position matters"
        if shift
        else "",
        "batch": batch,
        "quick_batch": quick_batch,
    }
    of = {
        one: {
            "name": json.dumps(f"{_name(file)}-{one}"),
            "title": title(one),
            "range": _range(spec, one, captured=guess.capture is not None),
            "family": _family(dataset, names) if of_kind(one).hides_more else "",
            "patience": "" if of_kind(one).unbounded else f"\npatience = {max(5, epochs['classifiers'] // 4)}",
            "perturber": section,
            "classifier_epochs": 1 if of_kind(one).unbounded else epochs["classifiers"],
            "epochs": epochs["perturber"] if of_kind(one).trained else 1,
            "quick_classifier_epochs": 1 if of_kind(one).unbounded else quick_epochs["classifiers"],
            "quick_epochs": quick_epochs["perturber"] if of_kind(one).trained else 1,
            # of others than vectors, the class is reported
            "floor_is": ONE_REPORT if of_kind(one).reports and spec.kind == "vector" else FLOOR,
        }
        for one, section in drafts.items()
    }
    network = tried[0].architecture if tried else first_look.candidates(spec)[0]
    return Draft(out, fields, of, look, tried, network, (*notes, *told, *seen))


def _budget(fitted: float, steps: Mapping[str, int]) -> tuple[int, dict[str, int]]:
    """The batch and the epochs of each part that make so many steps over ``fitted`` rows."""
    batch = 128 if fitted >= 4096 else 64 if fitted >= 256 else 16
    per_epoch = max(1, int(fitted // batch))
    return batch, {part: int(np.clip(round(count / per_epoch), 3, 150)) for part, count in steps.items()}


def usual(dataset: Dataset, *, stream: bool = False) -> tuple[str, str]:
    """The kind that holds for such data, "codebook" or "label-only", and why."""
    part = dataset.part("perturber")
    cells = len(np.unique(np.stack([part.y, part.z]), axis=1).T)
    needed = max(SLICE_ROWS * cells, SHOWN_ROWS * CODES * len(dataset.y_names))
    if synthesis.fewest_drawn(dataset, stream=stream).min() < 2:
        return "label-only", "a class of y has one person to learn codes from, and a mean must be of several"
    if len(part) < needed:
        return "label-only", f"codes are learned from {len(part)} rows here, and {needed} are needed"
    return "codebook", "what it sends can be counted"


def _range(spec: InputSpec, kind: str, *, captured: bool) -> str:
    """Lines about the range of x: of pictures as it is; of what promises an epsilon, where training rows have it."""
    if spec.kind == "image" and not captured:
        return f"low = {spec.low}    # x that becomes 0 in the networks\nhigh = {spec.high}    # x that becomes 1\n"
    if spec.kind == "vector" and of_kind(kind).promised:
        return (
            "# An epsilon asks for public bounds: replace this line by low and high, what the sensor can give.\n"
            'bounds = "from-training"\n'
        )
    return ""


def first_guess(given: Given, rows: np.ndarray | None = None) -> Recipe:
    """A recipe sufficient to load the data; a table is encoded by what ``rows`` hold (None: all)."""
    capture = capture_section(given)
    table = {
        "name": "look",
        "data": data_section(given, rows),
        **({} if capture is None else {"capture": capture}),
        "prior": {"kind": "counted"},
        "classifiers": {"architecture": "small"},
        "perturber": {"kind": "label-only"},
        "budget": {"classifier_epochs": 1, "epochs": 1},
        "limits": {"target_accuracy": 0.5},
    }
    return Recipe.check(table)


def _family(dataset: Dataset, names: Mapping[str, str]) -> str:
    """Lines about the other labels of the file: a finer one than z is priced, the others are named."""
    named_y, named_z = names["y"], names["z"]
    finer = finest(named_z, dataset.known)
    y = dataset.known[named_y].values
    named = {one for name in (named_y, named_z) for one in (name, *name.split(AND))}
    others = [name for name, one in dataset.known.items() if name not in {*named, finer} and not follows(one.values, y)]
    text = ""
    if finer != named_z:
        classes = len(np.unique(dataset.known[finer].values))
        text += f'family = "finest"  # z is a grouping of "{finer}" ({classes} classes), and no other one is given\n'
    if others:
        listed = ", ".join(json.dumps(name) for name in [*named_z.split(AND), *others])
        text += f"# To hide other labels of the file too: sensitive = [{listed}]\n"
    return text


def _remark(look: Mapping[str, first_look.Look]) -> str:
    what = {"y": "there may be little to keep", "z": "there may be little to hide"}
    return "".join(
        f"\n# Trees do no better than guessing {label}: {what[label]}, or it takes a network."
        for label, seen in look.items()
        if seen.blind
    )


def _apart(dataset: Dataset) -> float:
    """The mean Euclidean distance between two training samples in the unit cube."""
    part = dataset.part("perturber")
    most = min(len(part), 1000, first_look.affordable(dataset))
    u = dataset.unit(part.x[:most]).reshape(most, -1)
    return float(np.linalg.norm(u - np.roll(u, 1, axis=0), axis=1).mean())


def _notes(given: Given, dataset: Dataset) -> tuple[str, ...]:
    notes = []
    if turned_round(given):
        notes.append("The pictures have channels first; they are turned round, as cameras give them.")
    spec = dataset.input
    if spec.kind == "image" and given.capture is None and (options := smaller(spec.shape)):
        size = f"{spec.shape[1]} x {spec.shape[0]}"
        notes.append(f"The network is as large as the pictures, {size}. A smaller one for them: {' '.join(options)}.")
    if given.crop == PEOPLE:
        notes.append(
            "A step of a pixel is taken as 1 mm, and the lens as a Kinect v2's: put your camera's into "
            "`capture.frame.unit_mm` and `capture.crop.focal_px`."
        )
    return tuple(notes)


def _section(name: str, section: BaseModel | Mapping[str, Any] | None) -> str:
    """A section of plain values and those below it, as TOML; "" for None."""
    if section is None:
        return ""
    if isinstance(section, Mapping):
        plain = "".join(f"{_key(key)} = {_quoted(one)}\n" for key, one in section.items() if isinstance(one, str))
        if plain:
            return f"\n[{name}]\n{plain}"
        return "".join(_section(f"{name}.{_key(key)}", one) for key, one in section.items())
    values = section.model_dump(exclude_none=True, exclude_defaults=True)
    inner = {key: value for key, value in values.items() if isinstance(value, dict)}
    lines = [f"{key} = {_quoted(value)}\n" for key, value in values.items() if key not in inner]
    text = f"\n[{name}]\n{''.join(lines)}"
    return text + "".join(_section(f"{name}.{key}", getattr(section, key)) for key in inner)


def _quoted(value: Any) -> str:
    """Text, numbers and lists of them as TOML, which writes these as JSON does."""
    return json.dumps(value, ensure_ascii=False)


def _name(file: Path) -> str:
    name = re.sub(r"[^a-z0-9._-]+", "-", file.stem.lower()).strip("-._")[:60]
    return name or "mine"


def _from(folder: Path, file: Path) -> str:
    try:
        return str(file.resolve().relative_to(folder.resolve()))
    except ValueError:
        return str(file.resolve())


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)
