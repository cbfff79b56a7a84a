"""An auditor's rerun: the audit that a bundle's card records, made again with other seeds and compared with it.

A figure reproduces if the difference of both estimates is no larger than the root of the sum of the squares of those
halves of their 95 % intervals that face each other (the interval of a difference of Newcombe 1998, method 10, holds 0).
"""

from __future__ import annotations

import hashlib
import io
import math
import platform
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.devices.remote import RemoteRows
from edgeveil.edge_runtime import __version__
from edgeveil.edge_runtime.bundle.reader import Bundle, read_bundle, read_file
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline
from edgeveil.trainer.audit.card import current, of_bundle
from edgeveil.trainer.audit.findings import LABEL_ONLY, SENT, Finding, about_label_only, best, findings, kept, most_bits
from edgeveil.trainer.audit.frozen import open_target
from edgeveil.trainer.audit.sections.board_section import OnBoard, draws
from edgeveil.trainer.audit.subject import Subject, further_outputs, in_chunks
from edgeveil.trainer.audit.verdict import percent
from edgeveil.trainer.datasets.base import PARTS
from edgeveil.trainer.export.compilers.compiled import NotCompiled
from edgeveil.trainer.export.compilers.vendors import Compiler, simulating
from edgeveil.trainer.export.export import calibration_of
from edgeveil.trainer.export.folder import ExportFolder
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow

SCHEMA = 1
Ends = Mapping[str, Any]  # estimate, low and high of a figure; an end is None where it is not known
ROUNDED = 1e-6  # to which the figures of a document are rounded
SEED_STEP = 1000  # beyond the seeds that any budget uses
RULE = (
    "A figure reproduces if both estimates differ by no more than the root of the sum of the squares of those halves "
    "of their 95 % intervals that face each other. A recorded half counts as the rerun's whole interval at most, a "
    "bound as far as it is from its own estimate. Both audits attack the same test rows: chance in these, which the "
    "intervals include, moves both alike, so the rule is wider than it must be. The verdict reproduces if it is the "
    "same word; near a limit it may change with the seed alone: try further seeds."
)
NOT_REPEATED = (
    "The training of the perturber and of its classifiers, which are those of the run.",
    "The collection of the data and their labels: whether they are what the card says.",
    "Columns of boards, and all figures of the card that are not listed here.",
)


def rerun(
    path: Path, *, run: Path, trust: Path, artefact: str | None = None, seed: int | None = None, **work: Any
) -> dict[str, Any]:
    """Audit a bundle's artefact again, with the recorded budget and another ``seed``, and compare it with the card.

    ``artefact`` is one that the card speaks of, by default its first; ``seed`` by default the recorded one and
    ``SEED_STEP``; ``work`` are ``jobs`` and ``engine`` of ``audit``. Rows are perturbed anew: nothing that
    an audit kept is used.
    Returns the document of docs/reference/schemas/rerun.schema.json. Raises ``BadInput`` where bundle and run do not
    belong together, and otherwise as ``audit`` does.
    """
    from edgeveil.trainer.audit.audit import audit

    bundle = read_bundle(read_file(str(path)), open_trust(trust))
    card = current(of_bundle(bundle))
    # The part of a card that speaks of an artefact as a workstation runs it.
    parts = {part["artefact"]: part for part in card["artefacts"] if "on_board" not in part}
    chosen = next(iter(parts), None) if artefact is None else artefact
    if chosen not in parts:
        known = ", ".join(sorted(parts)) or "none that a workstation ran"
        raise BadInput(
            f"The card of this bundle has no audit of {artefact or 'any artefact'} to repeat; it has {known}."
        )
    recorded = parts[chosen]
    _check_run(bundle, card, Run.open(run))
    seed = recorded["seed"] + SEED_STEP if seed is None else seed
    if seed == recorded["seed"]:
        raise BadInput(
            f"The recorded audit had the seed {seed}: a rerun needs another. Leave --seed out, or change it."
        )
    terms = next((one.more for one in findings(recorded) if "tried" in one.more), {})
    with tempfile.TemporaryDirectory() as cache:
        settings = {
            "artefact": recorded["artefact"],
            "budget": recorded["budget"],
            "tried": terms.get("tried"),
            "looks": terms.get("looks", 0),
        }
        again = audit(path, run=run, trust=trust, seed=seed, cache=Path(cache), **settings, **work)
    return compare(recorded, again, name=card["name"], manifest_sha256=bundle.manifest_sha256)


def compare(
    recorded: Mapping[str, Any], again: Mapping[str, Any], *, name: str, manifest_sha256: str
) -> dict[str, Any]:
    """The document: an artefact's part of a card next to the ``audit`` document of its rerun."""
    figures = list(_figures(recorded, again))
    before, judged = recorded.get("verdict"), again["verdict"]
    verdict: dict[str, Any] = {"recorded": "none" if before is None else before["word"], "rerun": judged["word"]}
    verdict["reasons"] = list(judged["reasons"])
    verdict["reproduces"] = None if before is None else verdict["recorded"] == verdict["rerun"]
    return {
        "schema": SCHEMA,
        "kind": "edgeveil-rerun",
        "name": name,
        "manifest_sha256": manifest_sha256,
        "artefact": recorded["artefact"],
        "budget": recorded["budget"],
        **{
            side: {key: part[key] for key in ("created", "seed", "versions", "backends")}
            for side, part in (("recorded", recorded), ("rerun", again))
        },
        "figures": figures,
        "verdict": verdict,
        "reproduces": all(one["reproduces"] is not False for one in (*figures, verdict)),
        "rule": RULE,
        "not_repeated": list(NOT_REPEATED),
    }


def as_text(document: Mapping[str, Any]) -> str:
    """The document for a terminal."""
    before, after = document["recorded"], document["rerun"]
    lines = [
        f"{document['artefact']} of {document['name']}: {document['budget']} audit of {before['created'][:10]} with "
        f"seed {before['seed']}, made again with seed {after['seed']}",
        "",
        f"  {'figure':44} {'card':26} {'rerun':26}",
    ]
    for one in document["figures"]:
        lines.append(f"  {one['figure']:44} {_shown(one, 'recorded'):26} {_shown(one, 'rerun'):26} {_said(one)}")
    one = document["verdict"]
    lines.append(f"  {'verdict':44} {one['recorded']:26} {one['rerun']:26} {_SAID[one['reproduces']]}")
    lines += [f"    the rerun: {reason}" for reason in one["reasons"] if one["reproduces"] is not True]
    changed = [
        f"{name} {before['versions'].get(name, 'none')} to {version}"
        for name, version in after["versions"].items()
        if before["versions"].get(name) != version
    ]
    if changed:
        lines += ["", f"Other versions than then, which may change figures: {', '.join(changed)}."]
    return "\n".join([*lines, "", RULE, "", "Not repeated:", *(f"  {line}" for line in document["not_repeated"])])


def missed(document: Mapping[str, Any]) -> list[str]:
    """The names of what does not reproduce."""
    every = [*document["figures"], {"figure": "verdict", **document["verdict"]}]
    return [one["figure"] for one in every if one["reproduces"] is False]


def _check_run(bundle: Bundle, card: Mapping[str, Any], run: Run) -> None:
    """Raise ``BadInput`` unless bundle and run have one recipe and slices of one size."""
    if run.recipe_sha256() != bundle.manifest.document["provenance"]["recipe_sha256"]:
        raise BadInput(
            f"The bundle {bundle.manifest.name} was not made from the run in {run.folder}: their recipes differ. Name "
            "the run that it was exported from with --run."
        )
    dataset = run.sample()
    here = {str(part): len(dataset.part(part)) for part in PARTS}
    recorded = {str(part): card["data"]["rows"].get(part, 0) for part in PARTS}
    if here != recorded:
        raise BadInput(
            f"The card was measured on slices of {_listed(recorded)} rows; those of {run.folder} have {_listed(here)}. "
            "Name the run that the bundle was exported from with --run."
        )


def _listed(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} ({part})" for part, count in rows.items())


def _figures(recorded: Mapping[str, Any], again: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    y, z = again["data"]["target"], again["data"]["sensitive"]
    sides = [{**recorded, "data": again["data"]}, again]
    yield _figure(f"{y} kept", "share", *(_ends(kept(part)) for part in sides))
    yield _figure(f"{z}, best attack", "share", *(_ends(best(part).figures["right"]) for part in sides))
    yield _figure(f"{z}, most bits", "bits", *(_ends(most_bits(part).figures["bits-counted"]) for part in sides))
    floors = (_ends(best(part, LABEL_ONLY).figures["right"]) for part in sides)
    yield _figure(f"label-only: {z}, best attack", "share", *floors)
    for name, law, figure in (
        ("factor of the worst code, at most", "worst code", "factor"),
        (f"{z}, right at most", "counted channel", "right"),
    ):
        bounds = [_bound(part, law, figure) for part in sides]
        if bounds != [None, None]:
            yield _figure(name, "share" if figure == "right" else figure, *bounds)


def _figure(name: str, unit: str, recorded: Ends | None, again: Ends | None) -> dict[str, Any]:
    """One figure of both: ``reproduces`` is None where the rerun has no interval, False where one has no figure."""
    comparison: dict[str, Any] = {"figure": name, "unit": unit, "recorded": recorded, "rerun": again}
    if recorded is None or again is None:
        return {**comparison, "difference": None, "allowed": None, "reproduces": False}
    difference = again["estimate"] - recorded["estimate"]
    comparison["difference"] = round(difference, 6)
    facing, opposite = ("high", "low") if difference >= 0 else ("low", "high")
    if again["low"] is None or again["high"] is None:
        return {**comparison, "allowed": None, "reproduces": None}
    # Both are of the same rows: a recorded interval that is much wider would excuse any figure.
    most = again["high"] - again["low"]
    half = most if recorded[facing] is None else min(most, abs(recorded[facing] - recorded["estimate"]))
    allowed = math.hypot(half, again["estimate"] - again[opposite])
    return {**comparison, "allowed": round(allowed, 6), "reproduces": abs(difference) <= allowed + ROUNDED}


def _ends(one: Finding) -> Ends:
    value, (low, high) = one.value, one.interval
    return {"estimate": value, "low": low, "high": high}


def _bound(part: Mapping[str, Any], law: str, figure: str) -> Ends | None:
    """A bound, as wide on both sides as it is away from its estimate; None where there is none."""
    for one in findings(part, SENT):
        if one.bound and (one.name, one.figure) == (law, figure) and one.value is not None:
            least = one.value if one.interval[0] is None else one.interval[0]
            return {"estimate": one.value, "low": least, "high": round(2 * one.value - least, 6)}
    return None


_SAID = {True: "reproduces", False: "DOES NOT REPRODUCE", None: "cannot be compared"}


def _said(one: Mapping[str, Any]) -> str:
    if one["reproduces"] is not False or one["difference"] is None:
        return _SAID[one["reproduces"]]
    size, unit = (100, " points") if one["unit"] == "share" else (1, "")
    return f"{_SAID[False]}: {size * one['difference']:+.3g}{unit}, allowed {size * one['allowed']:.3g}"


def _shown(one: Mapping[str, Any], side: str) -> str:
    interval = one[side]
    if interval is None:
        return "none"
    if "at most" in one["figure"]:
        return _value(interval["estimate"], one["unit"])
    ends = ", ".join("-" if interval[end] is None else _value(interval[end], one["unit"]) for end in ("low", "high"))
    return f"{_value(interval['estimate'], one['unit'])} [{ends}]"


def _value(number: float, unit: str) -> str:
    return percent(number) if unit == "share" else f"{number:.3f}"


# An audit of what a vendor's simulator computes of a compiled artefact: a column of the card, though no board ran it.
#
# The simulator computes what the compiler's quantisation made of the network. It compiles anew, from the same artefact
# and calibration rows; that this is the same network is held by the golden outputs, which must come out to the bit.

MEANING = (
    "The test slice went through the simulator of the compiler's maker on a workstation; no board ran it. Attackers "
    "learned on what the artefact that was compiled lets out of the other slices. Readings are compared with that "
    "artefact's under the noise that was drawn for the simulator."
)


def audit_on_simulator(
    folder: ExportFolder, python: Path, *, artefact: str, budget: str, seed: int, **settings: Any
) -> dict[str, Any]:
    """The audit document of an export's compiled artefact as its simulator computes it, with its ``on_board``.

    As ``simulated`` and ``audit``. Raises ``BadInput`` as these, and where the export was not audited yet.
    """
    from edgeveil.trainer.audit.audit import audit

    if folder.audit is None:
        raise BadInput(f"{folder.folder} was not audited yet: run edgeveil audit {folder.folder} first.")
    alike = folder.audit["budget"] == budget and folder.audit["seed"] == seed
    settings |= {"artefact": artefact, "budget": budget, "seed": seed, "there": simulated(folder, python, artefact)}
    return audit(folder.folder, label_only=about_label_only(folder.audit) if alike else None, **settings)


def simulated(folder: ExportFolder, python: Path, artefact: str) -> OnBoard:
    """The test slice as the simulator computes it.

    ``python`` has the toolkit that compiled the artefact, in the same version. Raises ``BadInput`` where the artefact
    has no simulator, or where this is not the network that was compiled.
    """
    opened = open_target(folder.folder, run=None, trust=None, artefact=artefact)
    subject: Subject = opened.subject
    subject.sha256()
    load_tensorflow()
    compiler, chip, runners = _runners(subject, opened.run, python)
    _same_network(subject, runners, compiler)
    further = [*subject.manifest["outputs"], *further_outputs(subject), *draws(subject.manifest)]
    pipeline = Pipeline(parse({**subject.manifest, "outputs": further}), tables=subject.tables(), runners=runners)
    try:
        outputs = in_chunks(pipeline.run, opened.run.sample().part("test").x)
    except NotCompiled as error:
        raise BadInput(f"The simulator did not compute the test slice: {compiler.name} {error}.") from None
    infos = {model: runner.info() for model, runner in runners.items()}
    ran = {"backends": infos, "device": chip, "edge_runtime": __version__, "numpy": np.__version__}
    place = {"architecture": platform.machine(), "system": None, "python": platform.python_version()}
    rows = RemoteRows(artefact, outputs, ran, {"board": compiler.simulator, **place, "simulated": True})
    return OnBoard(rows, hashlib.sha256((folder.folder / "manifest.json").read_bytes()).hexdigest(), MEANING)


def _runners(subject: Subject, run: Run, python: Path) -> tuple[Compiler, str, dict[str, Any]]:
    entries = {name: model["artefacts"] for name, model in subject.manifest["models"].items()}
    compiled = {name: mine[subject.artefact] for name, mine in entries.items()}
    chip = next(iter(compiled.values())).get("compiled", {}).get("for", "")
    compiler = simulating(subject.artefact, chip)
    by = compiler.version(python)
    wrong = {entry["compiled"]["by"] for entry in compiled.values()} - {by}
    if wrong:
        raise BadInput(f"{subject.artefact} was compiled by {wrong.pop()}; {python} has {by}. Name the same version.")
    calibration, _ = calibration_of(run, run.perturber())
    if set(calibration) != set(entries):
        raise BadInput("This export has other networks than its run: it cannot be calibrated anew. Audit its board.")
    runners = {}
    for name, mine in entries.items():
        source = mine[compiled[name]["compiled"]["from"]]
        runners[name] = compiler.runner(python, chip, subject.members[source["file"]], source, calibration[name])
    return compiler, chip, runners


def _same_network(subject: Subject, runners: dict[str, Any], compiler: Compiler) -> None:
    """Raise ``BadInput`` unless the simulator's golden outputs are those that were recorded."""
    golden = subject.manifest["golden"]

    def array(file: str) -> np.ndarray:
        return np.asarray(np.load(io.BytesIO(subject.members[file]), allow_pickle=False))

    pipeline = Pipeline(parse(dict(subject.manifest)), tables=subject.tables(), runners=runners)
    drawn = {name: array(file) for name, file in golden["draws"].items()}
    try:
        simulated_outputs = pipeline.run(array(golden["input"]), drawn)
    except NotCompiled as error:
        raise BadInput(f"The simulator did not compute the golden samples: {compiler.name} {error}.") from None
    for name, file in golden["outputs"][subject.artefact].items():
        if not np.array_equal(simulated_outputs[name], array(file)):
            raise BadInput(
                f"The simulator's golden {name} was expected to be that of the export, and is another: its run, or "
                "the compiler, changed since. Export again."
            )
