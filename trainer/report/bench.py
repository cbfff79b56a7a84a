"""Recorded benchmarks as Markdown tables, one function per kind. Pure: documents in, text out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.trainer.audit.verdict import percent
from edgeveil.trainer.report.card_page import environment
from edgeveil.trainer.report.pictures import INKS, saved, style, svg


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [list(head), ["---"] * len(head), *(list(row) for row in rows)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def bench_table(results: Sequence[tuple[str, Any]]) -> str:
    """Results of ``edgeveil-edge bench``, one row each."""
    head = ["result", "artefact", "on", "p50 ms", "p99 ms", "p99.9 ms", "first ms", "frames/s", "whole loop/s"]
    head += ["operations by", "peak MiB", "J a frame", "verdict"]
    rows = []
    for name, d in results:
        ms, loop, power = d["latency_ms"], d["whole_loop"], d["power"]
        where = d["machine"]["board"] or d["machine"]["processor"] or d["machine"]["architecture"]
        rows.append(
            [
                name,
                d["artefact"],
                f"{where}, {d['backend']} {d['backend_version']}, {d['threads']} thread(s)",
                *(f"{ms[p]:.3f}" for p in ("p50", "p99", "p999")),
                f"{d['first_ms']:.2f}",
                f"{d['fps']:,.0f}",
                f"{loop['fps']:,.0f}" if loop else "not measured",
                "; ".join(f"{kind}: {n}" for one in d["ran_on"] for kind, n in sorted(one["kernels"].items())),
                f"{d['peak_rss_bytes'] / 2**20:.0f}",
                f"{power['joules_a_frame']:.3g} ({power['from']})" if power else "not measured",
                d["verdict"] if d["verdict"] == "VALID" else f"INVALID: {'; '.join(d['reasons'])}",
            ]
        )
    return markdown(head, rows)


def side_table(document: Any) -> str:
    """A side-by-side result as Markdown, refusals among its rows."""
    rows = []
    for row in document["rows"]:
        r = row.get("ratio")
        times = f"{r['median']:.2f} ({r['low']:.2f} to {r['high']:.2f}) of {r['to']}" if r else ""
        rows.append([row["name"], row["artefact"], f"{row['backend']} {row['version']}", f"{row['macs'] / 1e6:.1f}"])
        rows[-1] += [f"{row['p50_ms']:.3f}", f"{row['fps']:,.0f}", times]
    for row in document["refused"]:
        rows.append([row["name"], row["artefact"], row["backend"], f"{row['macs'] / 1e6:.1f}", "", ""])
        rows[-1].append(f"REFUSED: {row['refused']}")
    return markdown(["network", "artefact", "backend", "M MACs", "p50 ms", "frames/s", "ratio (95 %)"], rows)


def harness_table(document: Any) -> str:
    """The harness's median over that of a bare loop, and of OpenVINO's benchmark_app."""
    limits = document["limits"]
    rows = []
    for row in document["bare"]:
        rows.append(["a bare loop", row, row["bare_ms"], f"within {limits['bare']:.0%}"])
    app, copies = document["benchmark_app"], document["benchmark_app_and_copies"]
    rows.append(["benchmark_app", app, app["benchmark_app_ms"], f"within {limits['benchmark_app']:.0%}"])
    rows.append(["benchmark_app; ours with copies in and out", copies, copies["benchmark_app_ms"], "not judged"])
    cells = []
    for beside, row, ms, limit in rows:
        cells.append([row["artefact"], f"{row['backend']} {row['version']}", beside, f"{ms:.3f}"])
        cells[-1] += [f"{row['harness_ms']:.3f}", f"{row['ratio']:.3f} x", limit]
    return markdown(["artefact", "backend", "against", "its ms", "ours, ms", "ratio (median)", "aim"], cells)


def repeat_table(document: Any) -> str:
    """Two quiet runs and the one next to busy processes."""
    runs = [*(("quiet", one) for one in document["quiet"]), ("under load", document["beside_hogs"])]
    rows = [
        [name, f"{one['latency_ms']['p50']:.4f}", f"{one['cpu_ratio']:.0%}", one["verdict"], "; ".join(one["reasons"])]
        for name, one in runs
    ]
    apart = f"p50 {document['apart']:.1%} apart, {document['most_apart']:.0%} at most were expected.\n\n"
    return apart + markdown(["run", "p50 ms", "of a core", "verdict", "reasons"], rows)


def start_table(document: Any) -> str:
    """Import, open and first frame, against the bare interpreter; int8 over float32."""
    rows = []
    for row in document["rows"]:
        facts = [row["artefact"], row["backend"]]
        if "refused" in row:
            rows.append([*facts, "REFUSED", row["refused"], "", "", "", ""])
            continue
        peaks = [f"{row[f'{who}_peak'] / 2**20:.0f}" for who in ("bare", "ours")]
        rows.append([*facts, *(f"{row[f'{who}_ms']:.0f}" for who in ("bare", "ours")), f"{row['ratio_ms']:.2f} x"])
        rows[-1] += [*peaks, f"{row['ratio_peak']:.2f} x"]
    head = ["artefact", "backend", "bare ms", "ours ms", "ratio", "bare peak MiB", "ours peak MiB", "ratio"]
    text = markdown(head, rows)
    if document["precision"]:
        rows = [
            [r["network"], r["format"], r["backend"], f"{r['int8_over_float32']:.2f} x"] for r in document["precision"]
        ]
        text += "\n" + markdown(["network", "format", "backend", "int8 / float32 latency"], rows)
    return text


def flag(document: Any) -> str:
    """The mark of an invalid record, with its reasons; empty for a valid one."""
    return "" if document["verdict"] == "VALID" else f" **INVALID: {'; '.join(document['reasons'])}.**"


# bench.html: the tables and pictures of benchmarks as one page in one file.


def render(text: str, pictures: Mapping[str, tuple[str, bytes]]) -> str:
    """The page of ``text``, the Markdown of ``bench.tables``; every value is escaped.

    ``pictures`` are words and SVG by title.
    """
    shown = [{"title": title, "says": says, "image": svg(data)} for title, (says, data) in pictures.items()]
    return environment().get_template("bench.html").render(blocks=list(_blocks(text)), pictures=shown)


def _blocks(text: str) -> Iterator[dict[str, Any]]:
    """Headings, paragraphs and tables, which is all that there is; a table is named by the heading above it."""
    title = ""
    for number, block in enumerate(part.strip() for part in text.split("\n\n") if part.strip()):
        if block.startswith("|"):
            head, _, *rows = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in block.splitlines())
            yield {"kind": "table", "name": title, "id": f"t{number}", "head": head, "rows": rows}
        elif block.startswith("## "):
            title = block.removeprefix("## ")
            yield {"kind": "heading", "text": title}
        elif title:  # what stands before the first heading, the page says itself
            yield {"kind": "text", "text": block.replace("**", "").replace("`", "")}


# ``edgeveil run report bench``: tables and pictures of recorded benchmarks.
#
# Reads the JSON files of a folder: results of ``edgeveil-edge bench`` (schema 3) and of ``edgeveil bench --against``,
# and records of ``docs/results/bench``: Tables 3 and 4, the harness's overhead, repeated runs, start-up.

SCHEMA = 3
FILES = {"Latency": "latency.svg", "Windows": "windows.svg", "Cost and leakage": "cost-leakage.svg"}
KINDS = ("bench", "side-by-side", "tables", "harness", "repeat", "start")


def write_bench_report(results: Path, out: Path, *, privacy: Path | None = None) -> list[Path]:
    """Write ``bench.html``, ``bench.md`` and the SVG pictures into ``out``; returns what was written.

    Raises ``BadInput``.
    """
    found = read_results(results)
    audits = [] if privacy is None else read_audits(privacy)
    out.mkdir(parents=True, exist_ok=True)
    text, drawn = tables(found), pictures(found["bench"], audits)
    linked = "".join(f"\n## {title}\n\n![{says}]({FILES[title]})\n" for title, (says, _) in drawn.items())
    pages = {"bench.html": render(text, drawn).encode(), "bench.md": (text + linked).encode()}
    pages |= {FILES[title]: data for title, (_, data) in drawn.items()}
    for name, data in pages.items():
        write_atomic(out / name, data, keep_old=True)
    return [out / name for name in pages]


def pictures(results: Sequence[tuple[str, Any]], audits: Sequence[dict[str, Any]]) -> dict[str, tuple[str, bytes]]:
    """By title of ``FILES``, what the picture says and its SVG; without results or audits it is left out."""
    drawn = {}
    if results:
        said = "; ".join(f"{name} {d['latency_ms']['p50']:.3g} ms ({d['verdict']})" for name, d in results)
        drawn["Latency"] = f"Time of a frame, median: {said}.", latency_plot(results)
        said = "; ".join(f"{name} {100 * d['drift']:.1f} %" for name, d in results if d.get("drift") is not None)
        drawn["Windows"] = f"Median of each window over the run's. Drift: {said or 'not known'}.", windows_plot(results)
    if audits:
        said = "; ".join(f"{row['name']} {row['ms']:.3g} ms, {percent(row['attack'])}" for row in audits)
        drawn["Cost and leakage"] = f"Time of a frame, and best adaptive attack found: {said}.", cost_plot(audits)
    return drawn


def read_results(folder: Path) -> dict[str, list[tuple[str, Any]]]:
    """``(file name, document)`` for each of ``KINDS``. Raises ``BadInput``."""
    found: dict[str, list[tuple[str, Any]]] = {kind: [] for kind in KINDS}
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise BadInput(f"Results of benchmarks were expected in {folder}, JSON files; there are none.")
    for path in paths:
        try:
            document = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise BadInput(f"{path} cannot be read as JSON: {reason(error)}.") from None
        if not isinstance(document, dict):
            raise BadInput(f"{path} was expected to be a result, and is a {type(document).__name__}.")
        if "latency_ms" in document and "verdict" in document:
            if document.get("schema") != SCHEMA:
                raise BadInput(
                    f"{path} is of schema {document.get('schema')!r}; {SCHEMA} was expected. Run the benchmark again."
                )
            found["bench"].append((path.stem, document))
        elif document.get("kind") in found:
            found[document["kind"]].append((path.stem, document))
            # The results inside this record are drawn like any other.
            runs = [*document.get("quiet", ()), *filter(None, [document.get("beside_hogs")])]
            found["bench"] += [
                (f"{path.stem} {n}", run) for n, run in enumerate(runs, 1) if run.get("schema") == SCHEMA
            ]
    return found


def read_audits(folder: Path) -> list[dict[str, Any]]:
    """What each recorded perturber costs and leaks: name, ms a frame, the best attack with its interval, chance."""
    rows = []
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text())
        for artefact, audit in document.get("audits", {}).items():
            bench = document.get("bench", {}).get(artefact)
            worst = audit.get("worst_adaptive")
            if bench and worst:
                rows.append(
                    {
                        "name": f"{path.stem} {artefact}",
                        "ms": bench["latency_ms"]["p50"],
                        "attack": worst["accuracy"],
                        "low": worst["low"],
                        "high": worst["high"],
                        "chance": audit["chance"]["majority"],
                    }
                )
    return rows


def tables(found: dict[str, list[tuple[str, Any]]]) -> str:
    """All tables as Markdown."""
    parts = ["# Benchmarks, as recorded\n\nMade by `edgeveil run report bench`; change the results, not this file.\n"]
    if found["bench"]:
        parts.append("## Measured\n\n" + bench_table(found["bench"]))
    for name, document in found["side-by-side"]:
        parts.append(f"## In turns: {name}\n\n{document['what']}.{flag(document)}\n\n" + side_table(document))
    for name, document in found["tables"]:
        parts.append(f"## {name}\n\n" + "\n\n".join(document["markdown"]))
    for kind, title, table in (
        ("harness", "What the harness itself costs", harness_table),
        ("repeat", "Whether quick runs repeat", repeat_table),
        ("start", "What it costs to begin", start_table),
    ):
        for _, document in found[kind]:
            parts.append(f"## {title}\n\n{document['what'].rstrip('.')}.{flag(document)}\n\n" + table(document))
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _svg(draw: Any, size: tuple[float, float]) -> bytes:
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        return saved(figure)


def latency_plot(results: Sequence[tuple[str, Any]]) -> bytes:
    """A line per result, from the fastest frame to p99.9, with median and p99 marked; INVALID results are grey."""

    def draw(axes: Any) -> None:
        for place, (_, d) in enumerate(results):
            ms = d["latency_ms"]
            ink = INKS[0] if d["verdict"] == "VALID" else "#9aa0a6"
            axes.plot([ms["min"], ms["p999"]], [place, place], color=ink, linewidth=1)
            axes.plot([ms["p50"], ms["p90"]], [place, place], color=ink, linewidth=4, solid_capstyle="butt")
            axes.plot([ms["p50"]], [place], "o", color=ink, markersize=5)
            axes.plot([ms["p99"]], [place], "|", color=INKS[1], markersize=9)
        names = [f"{name}{'' if d['verdict'] == 'VALID' else ' (INVALID)'}" for name, d in results]
        axes.set_yticks(range(len(results)), names)
        axes.set_ylim(len(results) - 0.5, -0.5)
        axes.set_xscale("log")
        for ticks in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
            ticks("{x:g}")
        axes.set_xlabel("Time of a frame, ms (line: fastest to p99.9; dot: median; bar: to p90; tick: p99)")

    return _svg(draw, (7.0, 1.2 + 0.35 * len(results)))


def windows_plot(results: Sequence[tuple[str, Any]]) -> bytes:
    """The median of each window over time, as a share of the run's own median: drift shows as a slope."""

    def draw(axes: Any) -> None:
        for number, (name, d) in enumerate(results):
            middle = d["latency_ms"]["p50"]
            at = [100 * w["start_s"] / max(d["seconds"], w["start_s"] + 1e-9) for w in d["windows"]]
            ink, mark = INKS[number % len(INKS)], "osv^D"[number // len(INKS) % 5]
            name += "" if d["verdict"] == "VALID" else " (INVALID)"
            axes.plot(at, [w["p50"] / middle for w in d["windows"]], mark + "-", color=ink, label=name, markersize=4)
        axes.axhline(1, color="#9aa0a6", linewidth=0.8)
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 0.9), max(high, 1.1))  # at least what the verdict allows, or noise looks large
        axes.set_xlabel("When the window began, % of the run")
        axes.set_ylabel("Median of the window / median of the run")
        axes.legend(fontsize=7)

    return _svg(draw, (7.0, 3.4))


def cost_plot(audits: Sequence[dict[str, Any]]) -> bytes:
    """Measured ms a frame against the best attack found, with its interval and chance."""

    def draw(axes: Any) -> None:
        for number, row in enumerate(audits):
            ink = INKS[number % len(INKS)]
            attack, low, high = (100 * row[name] for name in ("attack", "low", "high"))
            error = [[attack - low], [high - attack]]
            axes.errorbar([row["ms"]], [attack], yerr=error, fmt="o", color=ink, label=row["name"], capsize=2)
        for chance in sorted({row["chance"] for row in audits}):
            axes.axhline(100 * chance, color="#9aa0a6", linewidth=0.8, linestyle="--")
        axes.set_xscale("log")
        for ticks in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
            ticks("{x:g}")  # a few figures close together: powers of ten say little
        axes.set_ylim(0, 102)
        axes.set_xlabel("Time of a frame, median, ms, on the machine of each record")
        axes.set_ylabel("Accuracy on the sensitive attribute,\nbest attack found, % (dashed: chance)")
        axes.legend(fontsize=7)

    return _svg(draw, (6.0, 4.0))
