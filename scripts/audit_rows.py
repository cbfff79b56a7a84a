"""The fields that audits of schema 1 had, computed from findings: records of docs/results have them.

    python -m scripts.audit_rows runs/mnist-export/audit.json
    python -m scripts.audit_rows OLD.json NEW.json

They are written to standard output; two audits, of either schema, are compared number by number: rows by their names,
as far as both have them. Exit code 3 where a number differs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.bundle.audit_figures import ATTACKS
from edgeveil.edge_runtime.bundle.audit_schema_1 import ATTACK
from edgeveil.trainer.audit.document import read
from edgeveil.trainer.audit.findings import LABEL_ONLY, RAW, SENT, Answer, Finding, answers, findings

CHOSEN_ON = "validation rows that neither the classifiers nor the perturber saw; reported on test"


def fields(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of schema 1 that are about attacks and probes, label-only's and those of raw samples with them."""
    y, z = document["data"]["target"], document["data"]["sensitive"]
    probes: dict[str, list[dict[str, Any]]] = {}
    for one in findings(document):
        if one.kind == "probe":
            probes.setdefault(one.question, []).append(_probe(one))
    raw = {(one.question, one.name): one for one in findings(document, RAW) if one.kind == "reader"}
    return {
        **part(findings(document, SENT), y, z),
        "label_only": part(findings(document, LABEL_ONLY), y, z),
        "raw": {"target": _rate(raw[y, "D_y"]), "sensitive": _rate(raw[z, "D_z"])},
        "probes": probes,
        "warnings": document["warnings"],
    }


def part(found: list[Finding], y: str, z: str) -> dict[str, Any]:
    """The fields about one perturber, of the findings about its output."""
    of_z = [one for one in found if one.question == z]
    tried = answers((one for one in of_z if not one.not_run), *ATTACKS)
    rows = [row(one) for one in tried]
    tests = {one.kind: _test(one) for one in of_z if one.kind in ("test", "counting")}

    def chosen(figure: str) -> dict[str, Any]:
        place = next(n for n, one in enumerate(tried) if one.figures[figure].more.get("chosen"))
        return {**rows[place], "chosen_on": CHOSEN_ON}

    of_y = next(one for one in found if (one.question, one.name, one.kind) == (y, "D_y", "reader"))
    return {
        "target": _rate(of_y),
        "chance": {one.name: one.value for one in of_z if one.kind == "guess"},
        "adversaries": rows,
        "not_run": [
            {"name": one.name, "kind": one.kind, "reason": one.not_run}
            for one in of_z
            if one.not_run and one.kind in ATTACKS
        ],
        "worst_adaptive": chosen("right"),
        "most_bits": chosen("bits-counted"),
        "learning_curve": _curve([one for one in of_z if one.kind == "curve"]),
        "permutation": tests.get("test"),
        "counting": tests.get("counting"),
        "parts": [_part(one) for one in answers(of_z, "part")],
        "what_else": labels_of(found),
    }


def row(one: Answer) -> dict[str, Any]:
    """An attack's row."""
    right, counted = one.figures["right"], one.figures["bits-counted"]
    attack_row: dict[str, Any] = {
        "name": one.name,
        "kind": one.kind,
        "learned_on": one.learned_on,
        "seed": one.seed,
        "train_samples": right.more["train_samples"],
        "seconds": right.more["seconds"],
        "members": right.more.get("members", ""),
        "validation_accuracy": right.chosen_by,
        "validation_bits": counted.chosen_by,
    }
    for figure, *names in ATTACK:
        known = one.figures.get(figure, Finding("", ""))
        attack_row |= dict(zip(names, (known.value, *known.interval, known.null), strict=True))
    recognised, worst = (one.figures.get(name, Finding("", "")) for name in ("recognised", "worst-class"))
    attack_row |= {"tpr_rows": recognised.rows, "tpr_p": recognised.p, "worst_class_rows": worst.rows}
    return {name: value for name, value in attack_row.items() if name}


def _rate(one: Finding) -> dict[str, Any]:
    return dict(zip(("accuracy", "low", "high"), (one.value, *one.interval), strict=True))


def _spread(one: Finding) -> dict[str, Any]:
    return dict(zip(("mean", "low", "high"), (one.value, *one.interval), strict=True))


def _test(one: Finding) -> dict[str, Any]:
    return {"p": one.p, "gain": one.value, **{name: one.more[name] for name in ("null_high", "shuffles", "swapped")}}


def _part(one: Answer) -> dict[str, Any]:
    right, bits = one.figures.get("right"), one.figures.get("bits-counted", one.first)
    return {
        "name": one.about,
        "kind": one.first.more["cut"],
        "rows": one.first.rows,
        "units": one.first.more["units"],
        "right": None if right is None else _rate(right),
        "chance": None if right is None else right.null,
        "bits": _spread(bits),
        "p": bits.p,
    }


def _curve(found: list[Finding]) -> dict[str, Any] | None:
    if not found:
        return None
    *points, gain = found
    ends = dict(zip(("gain", "gain_low", "gain_high"), (gain.value, *gain.interval), strict=True))
    rows = [{"rows": one.more["train_samples"], **_rate(one)} for one in points]
    return {"name": gain.name, "seed": gain.seed, "points": rows, **ends, "rising": gain.more["rising"]}


def labels_of(found: Iterable[Finding]) -> dict[str, Any]:
    """What else can be read."""
    labels, skipped, worst = [], [], None
    for one in answers(found, "label", "side"):
        if one.first.not_run:
            skipped.append({"name": one.question, "reason": one.first.not_run})
        elif one.kind == "label":
            right, more = one.figures["right"], one.figures["right"].more
            about = {"name": one.question, "attack": one.name, "learned_on": one.learned_on, "chance": right.null}
            about |= {name: more[name] for name in ("classes", "ordered", "questions")}
            about |= {"bits": _spread(one.figures["bits-counted"]), "right": _rate(right)}
            labels.append({**about, "worst_grouping": None, "worst_threshold": None})
        else:
            auc, more = one.figures["auc"], one.first.more
            side = {"question": one.about, "auc": _spread(auc), "bits": _spread(one.figures["bits-counted"])}
            side |= {"p": auc.p, "read": more["read"]}
            labels[-1]["worst_threshold" if more["threshold"] else "worst_grouping"] = side
            worst = {"label": one.question, **side} if more.get("worst") else worst
    question_count = sum(label["questions"] for label in labels)
    return {"questions": question_count, "labels": labels, "skipped": skipped, "worst": worst}


def _probe(one: Finding) -> dict[str, Any]:
    name = f"{one.name}, fresh rows" if one.learned_on == "fresh" else one.name
    if one.not_run:
        return {"name": name, "not_run": one.not_run}
    ends = dict(zip(("value", "low", "high"), (one.value, *one.interval), strict=True))
    return {"name": name, "figure": one.figure, **ends, "n": one.rows, "chance": one.null}


def numbers(value: Any, at: str = "") -> Iterator[tuple[str, float]]:
    """Each number of a document with its place; rows of a list by name, setting and seed. Times are left out."""
    if isinstance(value, Mapping):
        for key in sorted(value.keys() - {"seconds"}):
            yield from numbers(value[key], f"{at}.{key}")
    elif isinstance(value, list):
        for place, one in enumerate(value):
            named = isinstance(one, Mapping) and "name" in one
            key = [str(one[name]) for name in ("name", "learned_on", "seed") if name in one] if named else [str(place)]
            yield from numbers(one, f"{at}[{', '.join(key)}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield at, value


def compare(old: Path, new: Path) -> int:
    """Print what differs by more than the last of six digits; how many numbers both have, and how many differ."""
    before, after = (dict(numbers(one if "adversaries" in one else fields(one))) for one in map(_document, (old, new)))
    both = [place for place in before if place in after]
    differ = [place for place in both if abs(before[place] - after[place]) > 1.01e-6]
    for place in differ:
        print(f"{place[1:]} was {before[place]:g}, now {after[place]:g}")
    print(f"{len(both)} numbers in both, {len(differ)} differ; {len(before) - len(both)} in the first alone")
    return 3 if differ else 0


def _document(path: Path) -> Any:
    document = json.loads(path.read_text())
    return document if "adversaries" in document else read(path)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        raise SystemExit(compare(Path(sys.argv[1]), Path(sys.argv[2])))
    json.dump(fields(read(Path(sys.argv[1]))), sys.stdout, indent=1, sort_keys=True)
