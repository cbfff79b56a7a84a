"""The perturber under audit, run on every row: the exported file, on the edge runtime's own backend."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable, cast

import numpy as np

from edgeveil.edge_runtime.errors import BadInput, FrameDropped
from edgeveil.edge_runtime.manifest import outlets
from edgeveil.edge_runtime.manifest.capture import pipeline_sha256
from edgeveil.edge_runtime.manifest.manifest import Stage, parse, parse_table
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline, load_pipeline, read_array
from edgeveil.edge_runtime.stages import kind_of, reads_and_writes
from edgeveil.edge_runtime.stages.channel import Response
from edgeveil.edge_runtime.stages.hold import Majority
from edgeveil.edge_runtime.stages.mechanism import Mechanism
from edgeveil.edge_runtime.stages.table import Argmax, ArgmaxWithin
from edgeveil.edge_runtime.util.atomic import atomic_path
from edgeveil.trainer.attacks.problem import Codes, Released
from edgeveil.trainer.datasets.base import Dataset
from edgeveil.trainer.results import own_folder
from edgeveil.trainer.runs import fitted as received
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.runs.run import Run

# The dataflow of a pipeline: where all outputs depend on one code, a bottleneck, that code can be counted.

SENT, RELEASED = "sent", "released"  # names of the two further outputs that an audit reads; they never leave a board


@dataclass(frozen=True)
class Bottleneck:
    """All outputs are a function of ``released`` and fresh noise, and ``released`` of ``sent`` and noise.

    ``sent`` names the tensor of c, numbered so that those of each y-hat are together, ``released`` that of c'.
    ``table`` names the channel between them, None where c' = c. ``rows`` are the codes c there are, None where no
    table says so. ``hidden_label``: the channel mixes classes, so y-hat is not released. ``pictured``: frames are
    pictures of c' without any noise but the choice of one, so a receiver can look up which c' made a frame.
    """

    sent: str
    released: str
    table: str | None
    rows: int | None
    hidden_label: bool
    pictured: bool = False


def bottleneck(manifest: Mapping[str, Any], tables: Mapping[str, np.ndarray]) -> Bottleneck | str:
    """The code that all outputs of ``manifest`` (its ``stages`` and ``outputs``) pass, or, as text, why there is none.

    ``tables`` are its arrays by name.
    """
    kinds = map(kind_of, manifest["stages"])
    if any(isinstance(kind, Mechanism) and not isinstance(kind, Response) for kind in kinds):
        return "what is sent is a report of a local mechanism, and what that promises stands under spending"
    walk = _Walk([Stage(entry) for entry in manifest["stages"]])
    leaving = outlets.values(manifest)
    roots = sorted({root for output in leaving for root in walk.roots(output["tensor"])})
    if "" in roots:
        return "more of a reading leaves than a code, so there is nothing to count"
    codes = [root for root in roots if walk.within_class(root)]
    if len(codes) > 1 or (len(roots) > 1 and not codes):
        return "several codes leave side by side, and only one can be counted"
    root = codes[0] if codes else roots[0]
    others = set(roots) - {root}
    classes = walk.first_token(root) if codes else None
    if others and (classes is None or others != set(walk.roots(classes.group))):
        return "a class leaves that is not the one the code is of"
    table, released, by_code = walk.channel(root, leaving)
    # A table by class may have a row more, for a track that has not voted yet; classes are counted in the data.
    rows = len(tables[by_code]) if codes and by_code is not None else walk.voted(root)
    mixes = table is not None and not (classes and _keeps_class(tables[table], classes.groups))
    if mixes and others:
        return "the channel leaves the class of y-hat, which leaves as well"
    frames = [output["tensor"] for output in leaving if output["kind"] == "frame"]
    pictured = all(walk.is_picture(frame, released) for frame in frames)
    return Bottleneck(root, released, table, rows, mixes, pictured)


class _Walk:
    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages
        self.made_by = {name: stage for stage in stages for name in reads_and_writes(stage.entry)[1]}

    def roots(self, name: str) -> set[str]:
        """The codes that ``name`` is a function of, noise aside; "" where it sees more of x than codes."""
        stage = self.made_by.get(name)
        if stage is None:
            return {""}
        reads = set().union(*(self.roots(read) for read in reads_and_writes(stage.entry)[0]))
        # What is decided of a code's picture is a function of the code.
        return {name} if isinstance(kind_of(stage.entry), Argmax) and "" in reads else reads

    def within_class(self, name: str) -> bool:
        """Whether ``name`` is the number of the largest value within the group of a class."""
        stage = self.made_by.get(name)
        return stage is not None and isinstance(kind_of(stage.entry), ArgmaxWithin)

    def first_token(self, code: str) -> Stage:
        """The stage that makes the first of a code's tokens, whose groups are the classes."""
        stage = self.made_by[code]
        while self.within_class(stage.group):
            stage = self.made_by[stage.group]
        return stage

    def is_picture(self, name: str, code: str) -> bool:
        """Whether ``name`` is made of ``code`` alone: by tables, choices from them and functions, without noise."""
        if name == code:
            return True
        reads = reads_and_writes(self.made_by[name].entry)[0] if name in self.made_by else []
        return bool(reads) and all(self.is_picture(read, code) for read in reads)

    def voted(self, root: str) -> int | None:
        """Of how many classes tracks vote for one by ``root``; None where they do not."""
        votes = [s.groups for s in self._stages if isinstance(kind_of(s.entry), Majority) and s.input == root]
        return votes[0] if votes else None

    def channel(self, root: str, outputs: Sequence[Mapping[str, Any]]) -> tuple[str | None, str, str | None]:
        """The table of the one draw that all of the world sees ``root`` through, what it makes, and a table by c."""
        name = root
        while True:
            readers = [s for s in self._stages if name in reads_and_writes(s.entry)[0] and s.by != name]
            leaves = [output for output in outputs if output["tensor"] == name]
            tables = [stage.table for stage in readers] + [output.get("decoder") for output in leaves]
            by_code = next((table for table in tables if table), None)
            if leaves or len(readers) != 1:
                return None, name, by_code
            kind = kind_of(readers[0].entry)
            if isinstance(kind, Response):
                return by_code, readers[0].output, by_code
            if not kind.held:
                return None, name, by_code
            name = readers[0].output


def _keeps_class(channel: np.ndarray, groups: int) -> bool:
    """Whether every c' (a column) comes from the codes of one class alone, so that it tells y-hat anyway."""
    reached = (channel.reshape(groups, -1, channel.shape[1]) > 0).any(axis=1)
    return bool((reached.sum(axis=0) <= 1).all())


ROWS_AT_ONCE = 4096
KERAS = "keras"  # a pseudo-artefact for comparison tables: the run's own networks, which never ship

Perturb = Callable[[np.ndarray], Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Subject:
    """What is audited: a manifest, the bytes of the files it names (verified ones, of a bundle), and which artefact."""

    manifest: Mapping[str, Any]
    members: Mapping[str, bytes]
    artefact: str

    def sha256(self) -> dict[str, str]:
        """The hash of each model's file in this artefact."""
        hashes = {}
        for name, model in self.manifest["models"].items():
            if self.artefact not in model["artefacts"]:
                raise BadInput(
                    f"The artefact {self.artefact!r} was asked for; {name} was exported as "
                    f"{', '.join(sorted(model['artefacts']))}. Name one of these with --artefact."
                )
            hashes[name] = hashlib.sha256(self.members[model["artefacts"][self.artefact]["file"]]).hexdigest()
        return hashes

    def tables(self) -> dict[str, np.ndarray]:
        """Its arrays by name."""
        return {name: read_array(self.members, parse_table(entry)) for name, entry in self.manifest["tables"].items()}

    def pipeline_sha256(self) -> str:
        """The hash of everything that this artefact's outputs depend on, as a sealed manifest has it."""
        tables = {name: self.members[entry["file"]] for name, entry in self.manifest["tables"].items()}
        hashes = {name: hashlib.sha256(data).hexdigest() for name, data in tables.items()}
        return pipeline_sha256(dict(self.manifest), self.artefact, hashes)

    def compiled_from(self) -> str | None:
        """The artefact that this one was compiled from, for a device that no workstation has; None where it was not."""
        entries = [model["artefacts"].get(self.artefact, {}) for model in self.manifest["models"].values()]
        sources = {entry["compiled"]["from"] for entry in entries if "compiled" in entry}
        return sources.pop() if sources else None

    def runs_here(self) -> str:
        """The artefact that a workstation runs: this one, or what it was compiled from."""
        return self.compiled_from() or self.artefact


@dataclass(frozen=True)
class Perturbed:
    """Rows as they left: ``released`` for adversaries, and ``outputs``, with c and c' where there is a ``bottleneck``
    (text says why there is none). ``table`` (codes, codes') is the channel between them, None where c' = c. ``labels``
    are the classes of y (n,) among the outputs, by name."""

    released: Released
    outputs: Mapping[str, np.ndarray]
    bottleneck: Bottleneck | str
    table: np.ndarray | None
    backends: Mapping[str, Any]
    labels: Mapping[str, np.ndarray] = field(default_factory=dict)


def perturb_rows(
    subject: Subject,
    run: Run,
    dataset: Dataset,
    rows: np.ndarray,
    *,
    elsewhere: Mapping[str, np.ndarray] | None = None,
    cache: Path | None = None,
) -> Perturbed:
    """Perturb the rows ``rows`` of ``dataset`` with what ``subject`` names: the artefact, or the run's own networks.

    ``elsewhere`` are outputs of the last of these rows, ``further_outputs`` too, that a board made: they replace those
    made here. For an artefact compiled for an accelerator, the one it was compiled from runs here. ``cache`` is
    that of ``run_artefact``, ``own_folder`` where it is None. Raises ``BadInput`` for such an artefact without
    ``elsewhere``: there is nothing to audit.
    """
    if subject.artefact == KERAS:
        return perturb_with(run.perturber(), dataset, rows)
    if elsewhere is None and subject.compiled_from() is not None:
        raise BadInput(
            f"{subject.artefact} runs on its accelerator alone: audit it there (--on BOARD --device ...) or, where its "
            f"compiler has a simulator, by that (--simulate), and {subject.compiled_from()} here."
        )
    tables = subject.tables()
    code_bottleneck = bottleneck(subject.manifest, tables)
    further = replace(subject, manifest=_further(subject.manifest, code_bottleneck), artefact=subject.runs_here())
    outputs, backends = run_artefact(further, dataset.x[rows], cache or own_folder(run.folder))
    if elsewhere is not None:
        outputs = {name: _replace_end(value, elsewhere[name]) for name, value in outputs.items()}
    return _perturbed(subject.manifest, tables, outputs, code_bottleneck, dataset, rows, backends)


def perturb_with(fitted: FittedPerturber, dataset: Dataset, rows: np.ndarray) -> Perturbed:
    """Perturb the rows ``rows`` of ``dataset`` with networks that were never exported."""
    manifest, tables = fitted.description(), dict(fitted.tables)
    code_bottleneck = bottleneck(manifest, tables)
    pipeline = Pipeline(parse(_further(manifest, code_bottleneck)), tables=tables, runners=fitted.runners())
    outputs = in_chunks(pipeline.run, dataset.x[rows])
    return _perturbed(manifest, tables, outputs, code_bottleneck, dataset, rows, {})


def _perturbed(
    manifest: Mapping[str, Any],
    tables: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    found: Bottleneck | str,
    dataset: Dataset,
    rows: np.ndarray,
    backends: Mapping[str, Any],
) -> Perturbed:
    declared, values = received.as_received(manifest["outputs"], manifest["input"], tables, outputs)
    table = None
    if isinstance(found, Bottleneck) and found.table is not None:
        table = tables[found.table][: found.rows]  # without the row of tracks that have not voted
    released = replace(released_rows(declared, values, dataset, rows), codes=_codes(declared, outputs, found, table))
    labels = {one["name"]: values[one["name"]].reshape(-1) for one in declared if one["kind"] == "label"}
    return Perturbed(released, outputs, found, table, backends, labels)


def _codes(
    declared: Sequence[Mapping[str, Any]],
    outputs: Mapping[str, np.ndarray],
    found: Bottleneck | str,
    table: np.ndarray | None,
) -> Codes | None:
    """The codes among the outputs or read back from frames, and for a codebook the codes before its channel."""
    for output in declared:
        if output["kind"] != "code":
            continue
        value = outputs[output["name"]]
        if value.ndim == 1 and value.dtype.kind in "iu":
            # A code may be drawn of the channel's answer, which is then what can be counted.
            counted = table is not None and np.array_equal(value, outputs[RELEASED])
            return Codes(value, outputs[SENT], table) if counted else Codes(value)
    frame = next((output["name"] for output in declared if output["kind"] == "frame"), None)
    if frame is None or isinstance(found, str) or not found.pictured:
        return None
    # Of donors that are one code's each, that code.
    shared = table is None or (np.count_nonzero(table, axis=0) > 1).any()
    code = outputs[RELEASED if shared else SENT]
    if any(output["kind"] == "label" and np.array_equal(outputs[output["name"]], code) for output in declared):
        return None  # the class is all there is
    return Codes(_looked_up(outputs[frame], code))


def _looked_up(frame: np.ndarray, code: np.ndarray) -> np.ndarray:
    """The code (n,) that a receiver looks up for each frame (n, ...): of those that show it, the one first seen."""
    pictures = [row.tobytes() for row in np.ascontiguousarray(frame)]
    _, first, picture = np.unique(pictures, return_index=True, return_inverse=True)
    return np.asarray(code[first][picture])


def further_outputs(subject: Subject) -> list[dict[str, Any]]:
    """What an audit reads of a pipeline besides its outputs: entries like those of a manifest's outputs."""
    return _further({"outputs": []}, bottleneck(subject.manifest, subject.tables()))["outputs"]


def _replace_end(here: np.ndarray, there: np.ndarray) -> np.ndarray:
    if there.dtype != here.dtype or there.shape[1:] != here.shape[1:] or len(there) > len(here):
        raise BadInput(
            f"The board's outputs were expected to be {here.dtype} {here.shape[1:]}; they are {there.dtype} "
            f"{there.shape[1:]}. Audit there what was exported here."
        )
    return np.concatenate([here[: len(here) - len(there)], there])


def _further(manifest: Mapping[str, Any], found: Bottleneck | str) -> dict[str, Any]:
    """The same manifest, whose pipeline also hands out c and c'."""
    whole = {"kind": "code", "shape": [], "dtype": "int64"}
    named = {} if isinstance(found, str) else {SENT: found.sent, RELEASED: found.released}
    more = ({"name": name, "tensor": tensor, **whole} for name, tensor in named.items())
    return {**manifest, "outputs": [*manifest["outputs"], *more]}


@contextlib.contextmanager
def running(subject: Subject, run: Run) -> Iterator[Perturb]:
    """All outputs of raw samples, each release drawn anew."""
    if subject.artefact == KERAS:
        yield run.perturber().perturb
        return
    with contextlib.closing(load_pipeline(parse(subject.manifest), subject.members, subject.runs_here())) as pipeline:
        yield lambda x: in_chunks(pipeline.run, x)


def run_artefact(subject: Subject, x: np.ndarray, cache: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """All outputs for raw samples x (n, ...), and which backends made them (``{model: {"backend", "version"}}``).

    ``cache`` is a folder: the same bytes on the same backend are not run twice. It holds perturbed rows alone and
    may be deleted at any time.
    """
    subject.sha256()  # raises, with the artefacts that there are, where this is none of them
    with contextlib.closing(load_pipeline(parse(subject.manifest), subject.members, subject.artefact)) as pipeline:
        backends = {name: dict(runner.info()) for name, runner in pipeline.runners.items()}
        path = cache / f"{_key(subject, backends, x)}.npz"
        if path.is_file():
            with np.load(path, allow_pickle=False) as stored:
                return {name: stored[name] for name in stored.files}, backends
        outputs = in_chunks(pipeline.run, x)
    cache.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        np.savez(temporary, **cast(Any, outputs))
    return outputs, backends


def track_perturber(subject: Subject, run: Run) -> Callable[[np.ndarray, np.ndarray], Mapping[str, np.ndarray]]:
    """A function of raw samples (n, ...) and of the number of each one's track (n,), in order of time, to outputs."""

    def perturb(x: np.ndarray, track: np.ndarray) -> Mapping[str, np.ndarray]:
        if subject.artefact == KERAS:
            return dict(run.perturber().perturb(x, track))
        pipeline = load_pipeline(parse(subject.manifest), subject.members, subject.artefact)
        with contextlib.closing(pipeline):
            return dict(pipeline.run(x, tracks=track.tolist()))

    return perturb


def as_received(
    subject: Subject, outputs: Mapping[str, np.ndarray]
) -> tuple[list[Mapping[str, Any]], dict[str, np.ndarray]]:
    """The declared outputs and their values, with every code decoded into a frame as a receiver does."""
    manifest = subject.manifest
    return received.as_received(manifest["outputs"], manifest["input"], subject.tables(), outputs)


def in_chunks(perturb: Perturb, x: np.ndarray) -> dict[str, np.ndarray]:
    """``perturb`` on a few thousand rows at a time, so that memory stays small whatever the data set."""
    try:
        pieces = [perturb(x[start : start + ROWS_AT_ONCE]) for start in range(0, len(x), ROWS_AT_ONCE)]
    except FrameDropped as drop:
        raise BadInput(
            f"The perturber dropped a sample of the data set ({drop.reason}), so it cannot be audited on it: check "
            "that run and export belong together."
        ) from None
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def released_rows(
    declared: Sequence[Mapping[str, Any]], outputs: Mapping[str, np.ndarray], dataset: Dataset, index: np.ndarray
) -> Released:
    """All outputs for the rows ``index`` of ``dataset``, in that order, as one ``Released``.

    ``declared`` is the manifest's list of outputs, ``outputs`` their values. Labels and codes become one-hot columns
    ``also``, and reports of several values columns as they are; where no output is a frame, the frame is constant.
    """
    columns = []
    frame = np.zeros((len(index), *dataset.input.shape), dataset.input.dtype)
    for output in declared:
        value = outputs[output["name"]]
        if output["kind"] == "frame":
            frame = value
        elif value.ndim == 2:
            columns.append(value.astype(np.float32))
        else:
            columns.append(np.eye(int(value.max()) + 1, dtype=np.float32)[value.reshape(len(value))])
    also = np.concatenate(columns, axis=1) if columns else None
    part = dataset.rows(index)
    return Released(frame, part.y, part.z, part.cluster, also)


def _key(subject: Subject, backends: Mapping[str, Any], x: np.ndarray) -> str:
    """Everything that x' depends on, as one hash."""
    described = {
        "pipeline": subject.pipeline_sha256(),
        "backends": backends,
        "x": [str(x.dtype), list(x.shape), hashlib.sha256(np.ascontiguousarray(x).data).hexdigest()],
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:32]
