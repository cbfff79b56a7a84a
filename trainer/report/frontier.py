"""The facts of a report page as plain values, from audit.json, bench.json and the manifest."""

from __future__ import annotations

import hashlib
import io
import json
import textwrap
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.bench.protocol import SCHEMA
from edgeveil.edge_runtime.bundle.audit_figures import FIGURES
from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.trainer.audit.card import SUBSTITUTED
from edgeveil.trainer.audit.findings import SENT, findings, written
from edgeveil.trainer.audit.text import figures
from edgeveil.trainer.audit.verdict import BOUNDED, verdict
from edgeveil.trainer.report import pictures as drawing
from edgeveil.trainer.report.card_page import made_with, page
from edgeveil.trainer.report.card_page import shown as shown_of
from edgeveil.trainer.report.figures import curves
from edgeveil.trainer.report.pictures import INKS, saved, style


def summary(audit: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of the audit."""
    data = audit["data"]
    also = []
    if audit["budget"] == "quick":
        also.append("Longer training of the adversaries, and more seeds: this was the quick audit.")
    if data["clusters"] is None:
        also.append(
            "Separate people: the data do not identify people, so rows of one person may be in training and in test."
        )
    return {
        "audit": audit,
        "data": data,
        "created": audit["created"][:10],
        "edgeveil": audit["versions"].get("edgeveil", ""),
        "shown": shown_of(audit),
        "figures": figures(audit),
        "certified": certified(audit),
        "also_not_tested": also,
        "provenance": [
            ("Data", f"{data['name']}: {', '.join(f'{n:,} {name}' for name, n in data['rows'].items())} rows"),
            *made_with(audit),
        ],
    }


def certified(audit: Mapping[str, Any]) -> dict[str, str]:
    """The certified ``figure`` and the ``note`` with its assumptions; where nothing is certified, the note says why."""
    certificates = [one for one in findings(audit, SENT) if one.kind in ("certificate", "spending")]
    z = audit["data"]["sensitive"]
    given = [one for one in certificates if one.bound]
    best = next((one for one in given if one.question == z), given[0] if given else None)
    if best is not None:
        sign = "\N{LESS-THAN OR EQUAL TO} " if best.figure == "right" else f"{best.figure} "
        stands_above = verdict(audit)["word"] == BOUNDED and best.question == z
        note = "what it assumes is under How sure" if stands_above else best.text
        return {"figure": f"{sign}{written(best.value or 0.0, FIGURES[best.figure].form)}", "note": note}
    reason = next((one.not_run for one in certificates if one.not_run), "This audit counted nothing.")
    reason = reason.removeprefix("No certificate: ")
    return {"figure": "No certificate", "note": reason[:1].upper() + reason[1:]}


def read_bench(path: Path) -> Mapping[str, Any]:
    """A result of ``edgeveil-edge bench``. Raises ``BadInput`` for anything else."""
    expected = f"A result of `edgeveil-edge bench --json` was expected in {path}"
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{expected}, which cannot be read: {reason(error)}. Correct --bench.") from None
    if not isinstance(result, dict) or "latency_ms" not in result or "verdict" not in result:
        raise BadInput(f"{expected}; this file is something else. Correct --bench.")
    if result.get("schema") != SCHEMA:
        raise BadInput(f"{expected}, of schema {SCHEMA}; it is of {result.get('schema')!r}. Run the benchmark again.")
    return result


def speed_facts(bench: Mapping[str, Any]) -> list[tuple[str, str]]:
    """bench.json as names and values; empty values are left out."""
    machine = bench["machine"]
    facts = [
        ("Verdict", " because: ".join([bench["verdict"], *filter(None, ["; ".join(bench["reasons"])])])),
        ("Machine", f"{_place(machine)}, {machine['cores']} cores, {machine['system']}"),
        ("Artefact", bench.get("artefact", "")),
        ("Backend", bench.get("backend", "")),
        ("Latency", ", ".join(f"{name} {bench['latency_ms'][name]:.3g} ms" for name in ("p50", "p90", "p99"))),
        ("Frames per second", f"{bench['fps']:,.0f}"),
        ("Multiply-adds", f"{bench['macs']:,} ({bench['flops']:,} FLOP)"),
        ("Parameters", f"{bench['parameters']:,}"),
        ("Peak memory", f"{bench['peak_rss_bytes'] / 2**20:,.0f} MiB"),
    ]
    return [(name, value) for name, value in facts if value]


def headline(bench: Mapping[str, Any]) -> dict[str, str]:
    """The tile of the speed: its ``title``, ``figure``, ``tone`` and the ``note`` below, which has the reasons why a
    measurement is INVALID."""
    title = f"One frame, median, on {_place(bench['machine'])}"
    median = f"{bench['latency_ms']['p50']:.3g} ms"
    if bench["verdict"] != "VALID":
        why = "; ".join(bench["reasons"]) or "the benchmark gives no reason"
        note = f"{bench['verdict']}: {why}. It measured {median}: do not quote it."
        return {"title": title, "figure": "not measured", "tone": "bad", "note": note}
    note = f"{bench['fps']:,.0f} frames per second; {bench['macs']:,} MACs"
    return {"title": title, "figure": median, "tone": "", "note": note}


def _place(machine: Mapping[str, Any]) -> str:
    return machine["board"] or machine["processor"] or machine["architecture"]


def identities(audit: Mapping[str, Any], manifest: Mapping[str, Any], bundle: Path | None) -> list[tuple[str, str]]:
    """Hashes of the audited files and of the bundle; a file that has changed since the audit is marked."""
    pairs = []
    for artefact, models in audit["speaks_of"].items():
        for model, sha256 in models.items():
            now = manifest["models"].get(model, {}).get("artefacts", {}).get(artefact, {}).get("sha256")
            stale = "" if now == sha256 else " (audited; the export now holds another file)"
            pairs.append((f"{model}, {artefact}", f"sha256 {sha256}{stale}"))
    if bundle is not None:
        pairs.append((bundle.name, f"sha256 {hashlib.sha256(_bundle_bytes(bundle)).hexdigest()}"))
    return pairs


def sent(manifest: Mapping[str, Any]) -> str:
    """The outputs of a manifest in words: name, type and shape of each."""
    shapes = (" x ".join(map(str, one["shape"])) for one in manifest["outputs"])
    named = ((one["name"], one["dtype"], shape) for one, shape in zip(manifest["outputs"], shapes, strict=True))
    return ", ".join(f"a {name} ({shape}{', ' * bool(shape)}{dtype})" for name, dtype, shape in named)


def is_development(bundle: Path | None) -> bool:
    """Whether a bundle calls itself a development one. For display only: the bundle is not verified."""
    if bundle is None:
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(_bundle_bytes(bundle))) as archive:
            return bool(json.loads(archive.read("manifest.json"))["development"])
    except (zipfile.BadZipFile, KeyError, ValueError):
        raise BadInput(
            f"A sealed .veil bundle was expected at {bundle}; this file is not one. Correct --bundle."
        ) from None


def _bundle_bytes(bundle: Path) -> bytes:
    try:
        return bundle.read_bytes()
    except OSError as error:
        raise BadInput(
            f"A bundle was expected at {bundle}; there is none ({error.strerror}). Seal one, or leave out --bundle."
        ) from None


# The frontier as a table and as a picture (Fig. 7 of paper 001): leakage against utility, and against what is kept.

WIDEST_LABEL = 40  # letters
MARKS = "o^vDP*X"  # more recipes than colours stay apart
Row = Mapping[str, Any]


def as_text(frontier: Mapping[str, Any], *, kept: Sequence[str] = ()) -> str:
    """The points as a table for a terminal; ``kept`` names the properties to show, default: all that were measured."""
    rows = measured(frontier)
    names = list(kept) or properties(rows)
    lines = [
        f"{'point':44} {'best attack [95 %]':24} {'chance':>6} {'bits':>7}  {'Acc(D_y) [95 %]':22} {'verdict':12}"
        + " ".join(f"{name[:13]:>13}" for name in names)
    ]
    for row in rows:
        leak, bits = row["leak"], row.get("bits_over_null")
        shown = " ".join(f"{_number(row['kept'].get(name)):>13}" for name in names)
        lines.append(
            f"{label(row)[:44]:44} {_rate(leak):24} {100 * row['chance']['majority']:6.1f} "
            f"{'' if bits is None else format(bits['estimate'], '+.3f'):>7}  {_rate(row['target']):22} "
            f"{row.get('verdict', {}).get('word', '-'):12} {shown}"
        )
    failed = [row for row in frontier["points"] if "failed" in row]
    lines += [f"{label(row)[:44]:44} not run: {row['failed']}" for row in failed]
    lines.append(
        f"Attacks: {frontier['attacks']}. Right about z in %, on the test slice, the worst by validation; bits about z "
        "over the permutation null. Kept: correlation within y between x and x', 0 for label-only."
    )
    return "\n".join(lines)


def measured(frontier: Mapping[str, Any]) -> list[Row]:
    """The points that have figures."""
    return [row for row in frontier["points"] if "failed" not in row]


def properties(rows: Sequence[Row]) -> list[str]:
    """Every property that some point was measured on, in the order met."""
    return list(dict.fromkeys(name for row in rows for name in row["kept"]))


def label(row: Row) -> str:
    """The recipe and what was set in it."""
    return " ".join([row["recipe"], *(f"{key.rsplit('.')[-1]}={value}" for key, value in row["settings"].items())])


def draw(frontier: Mapping[str, Any], out: Path, *, kept: Sequence[str] = ()) -> list[Path]:
    """``frontier.svg`` and ``frontier.png`` in ``out``: a row of two panels for each data set. Returns their paths."""
    from matplotlib.figure import Figure

    rows = measured(frontier)
    sets = list(dict.fromkeys(row["data"] for row in rows))
    recipes = [name for name in dict.fromkeys(row["recipe"] for row in rows) if name != "label-only"]
    looks = {name: (INKS[n % len(INKS)], MARKS[n // len(INKS) % len(MARKS)]) for n, name in enumerate(recipes)}
    with style():
        figure = Figure(figsize=(8.4, 3.6 * max(len(sets), 1)), layout="constrained")
        panels = figure.subplots(max(len(sets), 1), 2, squeeze=False)
        for (left, right), data in zip(panels, sets, strict=False):
            mine = [row for row in rows if row["data"] == data]
            names = [name for name in (kept or properties(mine)) if any(name in row["kept"] for row in mine)]
            _panel(left, mine, looks, lambda row: _ends(row["target"]))
            _panel(right, mine, looks, lambda row, names=names: _kept(row, names))
            left.set_ylabel("Accuracy on the target attribute, %")
            kept_of = textwrap.fill(f"Correlation before and after, mean of {', '.join(names)}", WIDEST_LABEL)
            right.set_ylabel(kept_of if names else "Nothing else was measured")
            left.set_title(f"{data}: utility", loc="left", fontsize=10, fontweight="bold")
            right.set_title(f"{data}: what a label does not carry", loc="left", fontsize=10, fontweight="bold")
            for axes in (left, right):
                axes.set_xlabel("Accuracy on the sensitive attribute,\nbest attack found, %")
        handles = {text: handle for axes in panels.flat for handle, text in zip(*axes.get_legend_handles_labels())}
        figure.legend(handles.values(), handles.keys(), loc="outside lower left", frameon=False, fontsize=8, ncols=3)
        paths = [out / f"frontier.{kind}" for kind in ("svg", "png")]
        for path in paths:
            write_atomic(path, saved(figure, path.suffix[1:], dpi=160), keep_old=True)
    return paths


def _panel(axes: Any, rows: Sequence[Row], looks: Mapping[str, tuple[str, str]], of: Any) -> None:
    missing: list[str] = []
    for recipe in dict.fromkeys(row["recipe"] for row in rows):
        drawn = [(row, of(row)) for row in rows if row["recipe"] == recipe and of(row) is not None]
        if not drawn:
            missing.append(recipe)
            continue
        x, left, right = np.array([_ends(row["leak"]) for row, _ in drawn]).T
        y, low, high = np.array([value for _, value in drawn]).T
        floor = recipe == "label-only"
        ink, mark = ("#4a4f54", "s") if floor else looks[recipe]
        if floor:
            axes.axhline(y[0], color=ink, linewidth=1, linestyle=":", zorder=1)
        axes.errorbar(
            x,
            y,
            xerr=(np.maximum(x - left, 0), np.maximum(right - x, 0)),
            yerr=(np.maximum(y - low, 0), np.maximum(high - y, 0)),
            fmt=mark if floor else f"{mark}-",
            color=ink,
            markersize=4,
            linewidth=1,
            elinewidth=0.8,
            label="label-only (the floor)" if floor else recipe,
        )
    if missing:
        names = ", ".join("label-only (it keeps none)" if name == "label-only" else name for name in missing)
        axes.annotate(f"not measured: {names}", (0.02, 0.02), xycoords="axes fraction", fontsize=7)
    axes.locator_params(axis="x", nbins=6)
    if rows:
        axes.axvline(100 * rows[0]["chance"]["majority"], color="#b3372b", linewidth=1, linestyle="--", label="chance")
    axes.grid(color="#dedbd2", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)


def _ends(rate: Row) -> tuple[float, float, float]:
    return 100 * rate["accuracy"], 100 * rate["low"], 100 * rate["high"]


def _kept(row: Row, names: Sequence[str]) -> tuple[float, float, float] | None:
    """The mean over properties, with the mean of their ends: wider than the interval of the mean."""
    values = [row["kept"][name] for name in names if name in row["kept"]]
    if not values or len(values) < len(names):
        return None
    middle, low, high = (float(np.mean([one[end] for one in values])) for end in ("correlation", "low", "high"))
    return middle, low, high


def _rate(rate: Mapping[str, float]) -> str:
    return f"{100 * rate['accuracy']:.1f} [{100 * rate['low']:.1f}, {100 * rate['high']:.1f}]"


def _number(value: Mapping[str, float] | None) -> str:
    return "-" if value is None else f"{value['correlation']:.2f}"


# report.html: one page in one file, made from recorded results.

PICTURES = 12


def write_report(
    run: Path,
    export: Path,
    bundle: Path | None,
    out: Path,
    *,
    bench: Path | None = None,
    pictures: bool = False,
    comparison: tuple[Path, list[str]] | None = None,
) -> Path:
    """Write the page about a finished run, its audited export folder and, where given, its bundle and bench.json.

    ``pictures`` also shows raw samples next to perturbed ones: off by default, since they are personal data.
    ``comparison`` is a PNG of ``edgeveil.trainer.report.pictures`` and the lines that describe it.
    Raises ``BadInput`` if the export was not audited or a file is not what it should be.
    """
    from edgeveil.trainer.export.folder import ExportFolder
    from edgeveil.trainer.runs.run import Run

    folder, source = ExportFolder.open(export), Run.open(run)
    if folder.audit is None:
        raise BadInput(f"{export} was not audited, and a report shows the audit: run `edgeveil audit {export}` first.")
    audit = folder.audit
    measured = None if bench is None else read_bench(bench)
    facts = summary(audit)
    answers = list(facts["shown"]["answers"])
    answers.insert(1, ("What is sent", f"For each sample: {sent(folder.manifest)}."))
    values = {
        **facts,
        "title": source.recipe.name,
        "shown": {**facts["shown"], "answers": answers},
        "substituted": SUBSTITUTED if folder.manifest["perturber"]["substituted"] else "",
        "development": is_development(bundle),
        "bench": None if measured is None else speed_facts(measured),
        "speed": None if measured is None else headline(measured),
        "comparison": None if comparison is None else drawing.file(comparison[0]),
        "comparison_says": [] if comparison is None else comparison[1],
        "curves": curves(source.metrics()),
        "training_note": "Losses and accuracies by epoch, as recorded while training; none of it is an audit.",
        "boards": folder.report.get("profiles", []),
        "identities": identities(audit, folder.manifest, bundle),
        **shown(source, folder, audit, raw=pictures),
    }
    write_atomic(out, render(values).encode(), keep_old=True)
    return out


def shown(run: Any, folder: Any, audit: Mapping[str, Any], *, raw: bool) -> dict[str, Any]:
    """A dozen test samples as the audited artefact sends them; with ``raw`` also the samples themselves."""
    dataset = run.sample()
    if dataset.input.kind != "image" or not _frames(folder):
        return {"pictures": None, "pictures_raw": raw, "pictures_note": ""}
    test = dataset.part("test")
    rows = np.random.default_rng(0).permutation(len(test))[:PICTURES]
    some = test.take(rows[np.argsort(test.y[rows], kind="stable")])
    after = through(folder, audit["artefact"], some.x)
    low, high = dataset.input.low, dataset.input.high
    pairs = [
        {
            "before": drawing.png(some.x[i], low, high) if raw else None,
            "after": drawing.png(after[i], low, high),
            "label": f"{audit['data']['target']}: {dataset.y_names[some.y[i]]}",
        }
        for i in range(len(some))
    ]
    note = (
        "Test samples and what the device sends in their place, through the audited artefact."
        if raw
        else "Test samples as the device sends them. The samples themselves are shown only with --pictures."
    )
    return {"pictures": pairs, "pictures_raw": raw, "pictures_note": note}


def through(folder: Any, artefact: str, x: np.ndarray) -> np.ndarray:
    """The frames (n, ...) that an artefact of an export sends in place of samples ``x`` (n, ...)."""
    from edgeveil.edge_runtime.pipeline.pipeline import load_pipeline

    pipeline = load_pipeline(parse(folder.manifest), folder.members, artefact)
    try:
        return pipeline.run(x)[_frames(folder)[0]]
    finally:
        pipeline.close()


def _frames(folder: Any) -> list[str]:
    return [output["name"] for output in folder.manifest["outputs"] if output["kind"] == "frame"]


def render(values: Mapping[str, Any]) -> str:
    """The page; every value is escaped."""
    return page("report.html", values)
