"""The page docs/results/local-privacy.md from the records of scripts/reproduce/dp/; no number is typed by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.storage.atomic import write_atomic
from scripts.reproduce.dp import local, local_sgd
from scripts.reproduce.pages.rendering import render

NAME = "local-privacy"
RECORDS, PAGE = (local.RESULT, local_sgd.RESULT), Path("docs/results/local-privacy.md")

Record = Mapping[str, Any]
CONVERGES = 0.5  # of the largest step in error from the smallest to the largest n that still counts as convergence


def law_rows(record: Record) -> Iterator[dict[str, Any]]:
    """For each mechanism and alpha the sizes, the largest log-ratio over them, the draws, and whether all held."""
    keys = dict.fromkeys((row["mechanism"], row["alpha"]) for row in record["laws"])
    for mechanism, alpha in sorted(keys):
        rows = [row for row in record["laws"] if (row["mechanism"], row["alpha"]) == (mechanism, alpha)]
        yield {
            "mechanism": mechanism,
            "alpha": alpha,
            "sizes": ", ".join(str(row["size"]) for row in rows),
            "log_ratio": max(row["log_ratio"] for row in rows),
            "draws": sum(row["draws"] for row in rows),
            "held": all(row["held"] for row in rows),
        }


def unbiased_rows(record: Record) -> Iterator[dict[str, Any]]:
    """For each mechanism the largest |z| over sizes, readings and alphas."""
    for mechanism in dict.fromkeys(row["mechanism"] for row in record["unbiased"]["rows"]):
        rows = [row for row in record["unbiased"]["rows"] if row["mechanism"] == mechanism]
        yield {
            "mechanism": mechanism,
            "readings": len(rows),
            "z": max(row["largest_z"] for row in rows),
            "held": all(row["held"] for row in rows),
        }


def setting(record: Record, step: float, alpha: float | None, n: int) -> dict[str, Any]:
    """One row of LPSGD."""
    (found,) = (r for r in record["rows"] if (r["step"], r["alpha"], r["n"]) == (step, alpha, n))
    return dict(found)


def sgd_rows(record: Record) -> Iterator[dict[str, Any]]:
    """For each step and alpha the settings by n."""
    sizes = sorted({row["n"] for row in record["rows"]})
    for step, alpha in dict.fromkeys((row["step"], row["alpha"]) for row in record["rows"]):
        yield {"step": step, "alpha": alpha, "by_n": [setting(record, step, alpha, n) for n in sizes]}


def claims(means: Record, federated: Record) -> list[tuple[str, str, str]]:
    """(claim of the slides, held or not, why) from the records."""
    sizes = sorted({row["n"] for row in federated["rows"]})
    first, last = sizes[0], sizes[-1]

    def error(step: float, alpha: float | None, n: int) -> float:
        return float(setting(federated, step, alpha, n)["error"]["estimate"])

    def right(alpha: float | None) -> float:
        return float(setting(federated, 2.0, alpha, first)["accuracy"]["estimate"])

    converges = error(8.0, 4.0, last) < CONVERGES * error(8.0, 4.0, first)
    degrades = right(None) - right(0.5) > 0.05
    return [
        (
            "Minimax estimators are significantly more accurate than Laplace",
            _word(means["better_than_laplace"]),
            "Laplace over Duchi: " + _ratios(means, "laplace"),
        ),
        (
            "They are the best there is",
            _word(means["duchi_is_best"]),
            "Duchi over hybrid: " + _ratios(means, "duchi-linf"),
        ),
        (
            "LPSGD: even for low privacy, errors do not converge",
            _word(not converges),
            f"at step 2 the run without privacy ends at {error(2.0, None, last):.2f} too; at step 8 and alpha 4 the "
            f"error falls from {error(8.0, 4.0, first):.2f} to {error(8.0, 4.0, last):.2f}",
        ),
        (
            "LPSGD: high privacy degrades accuracy",
            _word(degrades),
            f"n = {first:,}, step 2: {right(0.5):.3f} at alpha 0.5, {right(None):.3f} without privacy",
        ),
        (
            "LPSGD: a single privacy parameter alpha",
            "not held",
            f"its lots use each user {federated['slide']['uses']:.1f} times, so it spends as many times alpha",
        ),
    ]


def _word(held: bool) -> str:
    return "held" if held else "not held"


def _ratios(means: Record, above: str) -> str:
    by_alpha: dict[float, list[str]] = {}
    for row in means["ratios"]:
        if row["above"] == above:
            by_alpha.setdefault(row["alpha"], []).append(f"{row['ratio']:.2f}")
    return "; ".join(f"alpha {alpha:g}: {', '.join(found)}" for alpha, found in by_alpha.items())


def ratio_rows(means: Record) -> Iterator[dict[str, Any]]:
    """For each ratio of errors its range and its values by n, each with its interval and a word."""
    keys = dict.fromkeys((row["alpha"], row["above"], row["below"]) for row in means["ratios"])
    for alpha, above, below in keys:
        rows = [row for row in means["ratios"] if (row["alpha"], row["above"], row["below"]) == (alpha, above, below)]
        least, most = rows[0]["least"], rows[0]["most"]
        yield {
            "alpha": alpha,
            "name": f"{above} over {below}",
            "range": f"above {least:g}" if most is None else f"{least:g} to {most:g}",
            "by_n": [row | {"word": _verdict(row)} for row in rows],
        }


def _verdict(row: Record) -> str:
    if row["inside"]:
        return "held"
    return "**not held**" if row["refuted"] else "outside, not told apart from its range"


def page(record: dict[str, Any], federated: dict[str, Any]) -> str:
    """The page on local differential privacy as Markdown."""
    return render(
        "local-privacy",
        local=record,
        federated=federated,
        claims=claims(record["means"], federated),
        laws=list(law_rows(record)),
        unbiased=list(unbiased_rows(record)),
        ratios=list(ratio_rows(record["means"])),
        sgd=list(sgd_rows(federated)),
    )


def write() -> None:
    """Write the page, where all its records are."""
    if all(path.is_file() for path in RECORDS):
        write_atomic(PAGE, page(*(json.loads(path.read_text()) for path in RECORDS)).encode())
