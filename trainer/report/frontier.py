"""The frontier as a table and as a picture (Fig. 7 of paper 001): leakage against utility, and against what is kept."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.trainer.audit.card import SUBSTITUTED
from edgeveil.trainer.report import page_facts
from edgeveil.trainer.report import pictures as drawing
from edgeveil.trainer.report.card_page import environment
from edgeveil.trainer.report.pictures import INKS, saved, style

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
            write_atomic(path, saved(figure, path.suffix[1:], dpi=160))
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
        said = ", ".join("label-only (it keeps none)" if name == "label-only" else name for name in missing)
        axes.annotate(f"not measured: {said}", (0.02, 0.02), xycoords="axes fraction", fontsize=7)
    axes.locator_params(axis="x", nbins=6)
    if rows:
        axes.axvline(100 * rows[0]["chance"]["majority"], color="#b3372b", linewidth=1, linestyle="--", label="chance")
    axes.grid(color="#dedbd2", linewidth=0.8)
    axes.spines[["top", "right"]].set_visible(False)


def _ends(rate: Row) -> tuple[float, float, float]:
    return 100 * rate["accuracy"], 100 * rate["low"], 100 * rate["high"]


def _kept(row: Row, names: Sequence[str]) -> tuple[float, float, float] | None:
    """The mean over properties, with the mean of their ends: wider than the interval of the mean."""
    found = [row["kept"][name] for name in names if name in row["kept"]]
    if not found or len(found) < len(names):
        return None
    middle, low, high = (float(np.mean([one[end] for one in found])) for end in ("correlation", "low", "high"))
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
    comparison: tuple[Path, str] | None = None,
) -> Path:
    """Write the page about a finished run, its audited export folder and, where given, its bundle and bench.json.

    ``pictures`` also shows raw samples next to perturbed ones: off by default, since they are personal data.
    ``comparison`` is a PNG of ``edgeveil.trainer.report.pictures`` and its description.
    Raises ``BadInput`` if the export was not audited or a file is not what it should be.
    """
    from edgeveil.trainer.export.folder import ExportFolder
    from edgeveil.trainer.runs.run import Run

    folder, source = ExportFolder.open(export), Run.open(run)
    if folder.audit is None:
        raise BadInput(f"{export} was not audited, and a report shows the audit: run `edgeveil audit {export}` first.")
    audit = folder.audit
    measured = None if bench is None else page_facts.read_bench(bench)
    values = {
        **page_facts.summary(audit),
        "title": source.recipe.name,
        "substituted": SUBSTITUTED if folder.manifest["perturber"]["substituted"] else "",
        "development": page_facts.is_development(bundle),
        "bench": None if measured is None else page_facts.speed_facts(measured),
        "speed": None if measured is None else page_facts.headline(measured),
        "comparison": None if comparison is None else drawing.file(comparison[0]),
        "comparison_says": "" if comparison is None else comparison[1],
        "curves": drawing.curves(source.metrics()),
        "training_note": "Losses and accuracies by epoch, as recorded while training; none of it is an audit.",
        "boards": folder.report.get("profiles", []),
        "identities": page_facts.identities(audit, folder.manifest, bundle),
        **shown(source, folder, audit, raw=pictures),
    }
    write_atomic(out, render(values).encode())
    return out


def shown(run: Any, folder: Any, audit: Mapping[str, Any], *, raw: bool) -> dict[str, Any]:
    """A dozen test samples as the audited artefact sends them; with ``raw`` also the samples themselves."""
    dataset = run.dataset()
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
    return environment().get_template("report.html").render(**values)
