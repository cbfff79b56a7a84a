"""How good estimates are: every network left out in turn, everything fitted anew without it, both methods.

For each network of devices/latency/published.csv (all its sizes and precisions together) the regression is fitted
without any of its rows, on any board, and its ranges are compared with what was measured. Nested: which variant of the
regression is fitted is chosen anew each time, without the network that is left out. Bounds ("at least") are checked on
the same fits, wherever another network on the board costs more in every respect. The second method, the
paper's Table 4, gets the left-out network's latency on the reference machine, as it would in use. A row is refused
where ``edgeveil estimate`` would refuse it. Takes five minutes. Records docs/results/bench/estimator.json and writes
the table of docs/results/estimator.md.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.devices.latency.calibration import Row, published
from edgeveil.devices.latency.estimate import FARTHEST, LEAST_NETWORKS, SHARE, Network, at_least, by_reference, estimate
from edgeveil.devices.latency.regression import Regression
from edgeveil.trainer.report.bench import write_guide
from scripts.reproduce import record
from scripts.reproduce.estimator.variants import USUAL, chosen, scored, spreads

RESULT = Path("docs/results/bench/estimator.json")
GUIDE = Path("docs/results/estimator.md")
REFERENCE = "coral-dev-board-cpu/tflite"  # the machine of the table with the most networks
MANY, MOST_WIDTH = 20, 3.0
SHORTEST_MS = 0.01  # a line that goes below 0 ms is cut here, for the score alone


def ours(rows: list[Row], model: str) -> Iterable[dict[str, Any]]:
    """What the regression says of each row of a network it has not seen."""
    left = [row for row in rows if row.model != model]
    variant, fitted = chosen(left, SHARE)
    for row in rows:
        if row.model != model:
            continue
        network = Network(model, row.macs, row.depthwise_macs, row.parameters, row.input_values)
        said = estimate(network, row.group, row.precision, fitted)
        found = {"row": row, "refused": said.refused is not None, "variant": variant}
        bound = at_least(row, fitted)
        if bound is not None:
            found["bound"] = 1000 / bound[0]
        if not found["refused"]:
            # The command's own answer is for one thread and no USB 2; the row says what it was measured with.
            fast, slow = fitted.predict(row).range_ms(SHARE)
            found |= {"low": fast, "high": slow, "middle": float(np.exp(fitted.predict(row).middle))}
        yield found


def by_line(rows: list[Row], model: str) -> Iterable[dict[str, Any]]:
    """What Table 4's line says of the same rows."""
    reference = {(r.model, r.input): r.latency_ms for r in rows if r.group == REFERENCE}
    for row in rows:
        if row.model != model or row.group == REFERENCE:
            continue
        at = reference.get((row.model, row.input))
        pairs = [
            (reference[(r.model, r.input)], r.latency_ms)
            for r in rows
            if r.model != model
            and (r.group, r.precision, r.threads, r.usb) == (row.group, row.precision, row.threads, row.usb)
            and (r.model, r.input) in reference
        ]
        said = None if at is None else by_reference(pairs, at)
        if said is None:
            yield {"row": row, "refused": True}
        else:
            yield {"row": row, "refused": False, "low": said[0], "middle": said[1], "high": said[2]}


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Coverage, width and interval score (Gneiting and Raftery 2007, on natural logarithms) of what was not refused."""
    given = [one for one in found if not one["refused"]]
    result = {
        "rows": len(found),
        "networks": len({one["row"].model for one in found}),
        "refused": round(1 - len(given) / len(found), 3),
    }
    if not given:
        return result
    low = np.log([max(one["low"], SHORTEST_MS) for one in given])
    high = np.log([max(one["high"], SHORTEST_MS) for one in given])
    middle = np.log([max(one["middle"], SHORTEST_MS) for one in given])
    truth = np.log([one["row"].latency_ms for one in given])
    outside = np.maximum(low - truth, 0) + np.maximum(truth - high, 0)
    score = high - low + 2 / (1 - SHARE) * outside
    widths = [one["high"] / one["low"] if one["low"] > 0 else float("inf") for one in given]
    width = float(np.median(widths))
    inside = {m: [] for m in {one["row"].model for one in given}}  # type: dict[str, list[bool]]
    for one, out in zip(given, outside, strict=True):
        inside[one["row"].model].append(out <= 0)
    return result | {
        "coverage": round(float(np.mean(outside <= 0)), 3),
        "coverage_by_network": round(float(np.mean([np.mean(v) for v in inside.values()])), 3),
        "median_width": round(width, 2) if np.isfinite(width) else None,
        "unbounded": round(float(np.mean(~np.isfinite(widths))), 3),
        "interval_score": round(float(np.mean(score)), 3),
        "median_error": round(float(np.exp(np.median(np.abs(middle - truth)))), 3),
    }


def main() -> int:
    """Measure and record; exit code 3 where a board with many rows has ranges that are too wide."""
    script = record.Script(__file__, __doc__, out=RESULT)
    options = script.parse_args()
    rows = published()
    found: dict[str, list[dict[str, Any]]] = {"regression": [], "line": []}
    for model in sorted({row.model for row in rows}):
        found["regression"] += ours(rows, model)
        found["line"] += by_line(rows, model)
        print(model, file=sys.stderr)
    groups = sorted({row.group for row in rows})
    boards = {
        group: {
            method: summary(those)
            for method, every in found.items()
            if (those := [one for one in every if one["row"].group == group])
        }
        for group in groups
    }
    document = {
        "what": "one network left out at a time, on every board; chosen and fitted without it; ranges of 80 %",
        "fitted_in_use": USUAL,
        "share": SHARE,
        "farthest": FARTHEST,
        "least_networks": LEAST_NETWORKS,
        "reference": REFERENCE,
        "score": "Gneiting and Raftery's interval score of ln ms; smaller is better",
        "boards": boards,
        "all": {method: summary(every) for method, every in found.items()},
        # The same rows for both: those that neither refused.
        "both_answered": _both(found),
        "most_width": {"boards_of_rows": MANY, "ratio": MOST_WIDTH},
        "variants": _variants(rows, found["regression"]),
        "bounds": _bounds(found["regression"]),
        "repeats": _repeats(rows),
        "spreads_of_the_whole_table": spreads(Regression(rows)),
        "misses": _misses(found["regression"]),
    }
    record.write(options.out, script.path, document)
    if options.out == RESULT:
        write_guide(RESULT.parent, GUIDE)
    wide = False
    for group, methods in boards.items():
        one = methods["regression"]
        print(group, one)
        if one["rows"] >= MANY:
            wide |= one.get("median_width", 0) > MOST_WIDTH
    print("all", document["all"])
    return 3 if wide else 0


def _both(found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    answered = [{id(one["row"]) for one in every if not one["refused"]} for every in found.values()]
    common = set.intersection(*answered)
    return {m: summary(those) for m, e in found.items() if (those := [o for o in e if id(o["row"]) in common])}


def _variants(rows: list[Row], found: list[dict[str, Any]]) -> dict[str, Any]:
    """How often each variant was chosen, one network left out, and its score on all rows (networks left out inside)."""
    times = Counter({one["row"].model: one["variant"] for one in found}.values())
    return {
        name: {
            "chosen": times[name],
            "score_inside": round(score, 3),
            "stretch": {kind: round(by, 3) for kind, by in fit.stretch.items()},
        }
        for name, (score, fit) in scored(rows, SHARE).items()
    }


def _bounds(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Whether networks that cost less than another on the board were as fast as was said, and by how much faster."""
    given = [one for one in found if "bound" in one]
    held = [one["row"].latency_ms <= one["bound"] for one in given]
    slack = [one["bound"] / one["row"].latency_ms for one in given]
    broken = [
        f"{one['row'].describe()}; at most {one['bound']:.3g} ms was said"
        for one, good in zip(given, held, strict=True)
        if not good
    ]
    facts = {"rows": len(given), "networks": len({one["row"].model for one in given})}
    return facts | {
        "held": round(float(np.mean(held)), 3),
        "slack": round(float(np.median(slack)), 2),
        "broken": broken,
    }


def _repeats(rows: list[Row]) -> dict[str, Any]:
    """How far apart sources are that measured the same network at the same settings on the same board."""
    alike: dict[Any, list[Row]] = {}
    for row in rows:
        key = (row.group, row.model, row.input, row.precision, row.threads, row.usb)
        alike.setdefault(key, []).append(row)
    many = [those for those in alike.values() if len(those) > 1]
    ratios = [max(r.latency_ms for r in those) / min(r.latency_ms for r in those) for those in many]
    widest = max(zip(ratios, many, strict=True), key=lambda pair: pair[0])
    return {
        "measured_more_than_once": len(many),
        "median_ratio": round(float(np.median(ratios)), 3),
        "widest_ratio": round(widest[0], 2),
        "widest": [row.describe() for row in widest[1]],
    }


def _misses(found: list[dict[str, Any]]) -> list[str]:
    """The rows outside their ranges, the worst first."""
    out = []
    for one in found:
        if one["refused"]:
            continue
        truth = one["row"].latency_ms
        off = max(one["low"] / truth, truth / one["high"])
        if off > 1:
            out.append((off, f"{one['row'].describe()}; range {one['low']:.3g} to {one['high']:.3g} ms"))
    return [text for _, text in sorted(out, reverse=True)]


if __name__ == "__main__":
    sys.exit(main())
