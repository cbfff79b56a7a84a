"""Recorded benchmarks as Markdown tables, one function per kind. Pure: documents in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


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


def estimator_table(document: Any) -> str:
    """Coverage, width, score and refusals for each board and method."""
    head = ["board / runtime", "rows", "networks", "method", "refused", *_SCORES]
    rows = []
    for group, methods in [*document["boards"].items(), ("all", document["all"])]:
        for method, s in methods.items():
            if "coverage" not in s and method == "line":
                continue  # refused for want of networks measured on both: that is what "all" counts
            row = [group, str(s["rows"]), str(s["networks"]), method, f"{s['refused']:.0%}"]
            rows.append(row + (_scores(s) if "coverage" in s else [""] * len(_SCORES)))
    return markdown(head, rows)


def both_table(document: Any) -> str:
    """The two methods on the rows that neither refused; empty where there are none."""
    head = ["method", "rows", "networks", *_SCORES]
    rows = [
        [method, str(s["rows"]), str(s["networks"]), *_scores(s)]
        for method, s in document["both_answered"].items()
        if "coverage" in s
    ]
    return markdown(head, rows) if rows else ""


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
    return markdown(["artefact", "backend", "beside", "its ms", "ours, ms", "ratio (median)", "aim"], cells)


def repeat_table(document: Any) -> str:
    """Two quiet runs and the one next to busy processes."""
    runs = [*(("quiet", one) for one in document["quiet"]), ("beside hogs", document["beside_hogs"])]
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


_SCORES = ("inside the 80 % range", "by network", "median width", "interval score", "median error")


def _scores(s: Any) -> list[str]:
    width = f"{s['median_width']:.2f} x" if s["median_width"] else "unbounded"
    found = [f"{s['coverage']:.0%}", f"{s['coverage_by_network']:.0%}", width]
    return [*found, f"{s['interval_score']:.2f}", f"{s['median_error']:.2f} x"]
