"""The tables of docs/results/linear-cleaners.md, from the records of the scripts that it names."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.trainer.report.bench_tables import markdown
from edgeveil.trainer.report.marked import filled

NAME = "linear-cleaners"
RECORDS, PAGE = Path("docs/results/predictors"), Path("docs/results/linear-cleaners.md")

Rows = list[dict[str, Any]]


def tables_in(text: str, results: Path) -> str:
    """``text`` with every marked table made anew. Raises BadInput for a table nobody makes or a result not there."""

    def table(file: str, make: Callable[[Rows], str]) -> str:
        path = results / f"{file}.json"
        if not path.is_file():
            raise BadInput(f"{path} is not there; record it first (the scripts of docs/results/linear-cleaners.md).")
        return make(json.loads(path.read_text(encoding="utf-8"))["rows"])

    return filled(text, {name: partial(table, *how) for name, how in _TABLES.items()})


def write_tables(results: Path, guide: Path) -> None:
    """Bring the tables of ``guide`` up to date with the files in ``results``."""
    write_atomic(guide, tables_in(guide.read_text(encoding="utf-8"), results).encode())


def write() -> None:
    """Bring the page up to date with its records."""
    write_tables(RECORDS, PAGE)


def _number(value: dict[str, float], percent: bool = False) -> str:
    """Mean with its interval, to three significant digits, or in per cent."""
    parts = [value["mean"], value["low"], value["high"]]
    mean, low, high = (f"{100 * p:.1f}" if percent else f"{p:.3g}" for p in parts)
    return f"{mean} ({low} to {high})"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _who(row: dict[str, Any]) -> list[str]:
    chosen = ", any labels" if row["labels"] == "random" else ""
    return [row["data"], f"{row['wanted']} / {row['confidential']}{chosen}", str(row["splits"])]


def _compared(prefix: str) -> Callable[[Rows], str]:
    def make(rows: Rows) -> str:
        head = ["data", "N_d / N_c", "splits", "e_privacy, paper", "e_privacy, ours", "CP %, paper", "CP %, ours"]
        body = [
            [
                *_who(row),
                f"{row['paper'][prefix + 'e_privacy']:.3f}",
                _number(row["ours"][prefix + "e_privacy"]),
                _percent(row["paper"][prefix + "cp"]),
                _number(row["ours"][prefix + "cp"], percent=True),
            ]
            for row in rows
        ]
        return markdown(head, body)

    return make


def _theorem(rows: Rows) -> str:
    head = [
        "data",
        "N_d / N_c",
        "splits",
        "e_utility, mean",
        "vectors below eps, %",
        "largest error, float64",
        "float32",
    ]
    body = [
        [
            *_who(row),
            f"{row['ours']['e_utility']['mean']:.4f}",
            _percent(row["ours"]["edge_cases"]["mean"]),
            f"{row['ours']['theorem_error_float64']['largest']:.1e}",
            f"{row['ours']['theorem_error_float32']['largest']:.1e}",
        ]
        for row in rows
    ]
    return markdown(head, body)


def _figure_3(rows: Rows) -> str:
    head = ["e_utility", "", "e_privacy, paper", "e_privacy, ours", "CP %, paper", "CP %, ours"]
    head.append("training rows too")
    body = []
    for row in rows:
        for prefix, name in (("laplace_", "Laplace"), ("attack_", "Algorithm 1 with attack")):
            body.append(
                [
                    f"{row['eps']:.2f}",
                    name,
                    f"{row['paper'][prefix + 'e_privacy']:.3f}",
                    _number(row["ours"][prefix + "e_privacy"]),
                    _percent(row["paper"][prefix + "cp"]),
                    _number(row["ours"][prefix + "cp"], percent=True),
                    _number(row["ours"]["laplace_cp_training_rows_too"], percent=True) if prefix == "laplace_" else "",
                ]
            )
    return markdown(head, body)


def _uncleaned(rows: Rows) -> str:
    head = ["data", "N_d / N_c", "splits", "CP %, nothing cleaned", "CP %, cleaned, no attack", "CP %, cleaned, attack"]
    keys = ("cp_uncleaned", "cp", "attack_cp")
    return markdown(head, [[*_who(row), *(_number(row["ours"][key], percent=True) for key in keys)] for row in rows])


def _orders(rows: Rows) -> str:
    head = ["data", "N_d / N_c", "splits", "e_privacy: exact (eps 0)", "approximate", "Algorithm 1"]
    keys = ("exact_attack_e_privacy", "approximate_attack_e_privacy", "attack_e_privacy")
    return markdown(head, [[*_who(row), *(_number(row["ours"][key]) for key in keys)] for row in rows])


def _ranked(rows: Rows) -> str:
    head = ["data", "N_d / N_c", "", "confidential, linear refit", "confidential, boosted refit", "wanted, linear"]
    names = {"raw": "raw", "cleaned": "Algorithm 1", "leace": "LEACE"}
    body = [
        [*_who(row)[:2], title, *(_number(row["ours"][f"{name}_{key}"]) for key in ("linear", "boosted", "wanted"))]
        for row in rows
        for name, title in names.items()
    ]
    return markdown(head, body)


def _speed(rows: Rows) -> str:
    head = ["features", "r", "precision", "what", "vectors at a time", "vectors/s", "share of the limit"]
    body = [
        [
            str(row["features"]),
            str(row["rank"]),
            row["dtype"],
            row["what"],
            f"{row['batch']:,}",
            f"{row['vectors_per_s']:.3g}",
            "" if row["of_limit"] is None else f"{row['of_limit']:.2f}",
        ]
        for row in rows
    ]
    return markdown(head, body)


def _stream(rows: Rows) -> str:
    head = ["what", "values a line", "lines", "lines/s", "share of parsing and printing", "memory, MiB", "at a tenth"]
    body = [
        [
            row["what"],
            str(row["features"]),
            f"{row['lines']:,}",
            f"{row['lines_per_s']:.3g}",
            f"{row['of_limit']:.2f}",
            *(f"{row[key] / 2**20:.1f}" for key in ("peak_rss_bytes", "peak_rss_bytes_of_a_tenth")),
        ]
        for row in rows
    ]
    return markdown(head, body)


_TABLES: dict[str, tuple[str, Callable[[Rows], str]]] = {
    "figure-1": ("figures-1-and-2", _compared("")),
    "figure-2": ("figures-1-and-2", _compared("attack_")),
    "theorem": ("figures-1-and-2", _theorem),
    "figure-3": ("figure-3", _figure_3),
    "uncleaned": ("figures-1-and-2", _uncleaned),
    "orders": ("figures-1-and-2", _orders),
    "ranked": ("beyond-the-figures", _ranked),
    "speed": ("cleaner-speed", _speed),
    "stream": ("stream", _stream),
}
