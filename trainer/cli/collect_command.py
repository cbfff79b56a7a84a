"""``edgeveil local collect``: what the reports of many devices say together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from edgeveil.trainer.cli.common import Json, Trust, print_either, seconds_of, verified_bundle
from edgeveil.trainer.cli.tree import local


@local.command(
    epilog="Example: edgeveil local collect survey.veil --trust trust --from npz:reports.npz "
    "--estimate histogram --json"
)
def collect(
    bundle: Annotated[Path, typer.Argument(help="The sealed .veil file that the devices ran.")],
    trust: Trust,
    sources: Annotated[
        list[str],
        typer.Option(
            "--from",
            help="mqtt://HOST/TOPIC (TOPIC itself, or TOPIC/DEVICE of each), npz:FILE, csv:FILE or csv:-; repeatable.",
        ),
    ],
    estimate: Annotated[
        Literal["mean", "histogram", "median", "quantiles"],
        typer.Option(help="mean of vectors; the others of categories."),
    ],
    output: Annotated[str | None, typer.Option(help="The report to read, where the bundle sends several.")] = None,
    until: Annotated[
        list[str] | None,
        typer.Option(help="Stop once so many reports are counted (1000), or stop listening after a time (60s, 30m)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Estimate a mean, a histogram or quantiles from the private reports of many devices."""
    from edgeveil.trainer.ext.local.blocks import open_feeds
    from edgeveil.trainer.ext.local.collect import collect as collect_reports
    from edgeveil.trainer.ext.local.reporting import reporting

    opened = verified_bundle(bundle, trust)
    reading = reporting(opened, output)
    counts = [int(one) for one in until or () if re.fullmatch("[1-9][0-9]*", one)]
    times = [seconds_of("--until", one) for one in until or () if not re.fullmatch("[1-9][0-9]*", one)]
    most = min(counts, default=None)
    feeds = open_feeds(sources, opened.manifest, reading, most=most, seconds=min(times, default=None))
    document = collect_reports(opened, reading, feeds, estimate, most=most)
    print_either(document, "\n".join(_lines(document)), as_json=as_json)


def _lines(document: dict[str, Any]) -> list[str]:
    counts = document["reports"]
    refused = ", ".join(f"{count} {reason}" for reason, count in counts["refused"].items()) or "none"
    lines = [
        f"{document['bundle']['name']}: {counts['counted']} reports of {document['output']} from {counts['senders']} "
        f"senders, by {document['mechanism']} at epsilon {document['epsilon']:g}; refused: {refused}"
    ]
    kind = document["estimate"]
    if kind in ("median", "quantiles"):
        for one in document[kind]:
            name = f" ({one['name']})" if one["name"] is not None else ""
            lines.append(f"  {one['level']:.2f}  category {one['category']}{name}{_between(one['interval_95'])}")
    else:
        values = document["mean" if kind == "mean" else "shares"]
        ends = document["interval_95"] or [None] * len(values)
        names = document.get("categories") or range(len(values))
        lines += [f"  {name}  {value:.6g}{_between(end)}" for name, value, end in zip(names, values, ends, strict=True)]
    if kind == "histogram":
        projected = document["projected"]
        lines.append(f"  {projected['method']}: {' '.join(f'{share:.4g}' for share in projected['shares'])}")
    if "no_interval" in document:
        lines.append(f"  no interval: {document['no_interval']}")
    moved = document["influence"]
    lines.append(
        f"  a lie moves {moved['moves']} by at most {moved['one_report']:.3g}, and a sender who always lies by at most "
        f"{moved['one_sender']:.3g}"
    )
    return lines


def _between(ends: Any) -> str:
    return "" if ends is None else f"  [{ends[0]:.6g}, {ends[1]:.6g}]"
