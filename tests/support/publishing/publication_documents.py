"""Statements of publications as publication.json has them, with invented numbers."""

from typing import Any

LIMITS = ["k-anonymity guards against singling a person out.", "Pseudonyms are deterministic."]
ROW = {
    **{"name": "gradient boosting", "kind": "adaptive", "train_samples": 700, "accuracy": 0.61, "low": 0.55},
    **{"high": 0.66, "auc": 0.62, "bits_counted": 0.021},
}


def statement() -> dict[str, Any]:
    """What a table's statement and an archive's have in common."""
    return {
        "plan_sha256": "1" * 64,
        "link": "person",
        "asked": {"k": 10, "suppress": 20, "illness.distinct_l": 2},
        "found": {"k": 12.0, "illness.distinct_l": 3.0},
        "suppressed_people": 15,
        "loss": {"mean": 0.4123, "columns": {"a-column-with-a-long-name" * 2: 0.25, "age": 0.5}, "discernibility": 9},
        "unique_before": {"all": 0.993, "most_telling": [{"columns": ["day", "age|sex"], "share": 0.987}]},
        "unique_after": 0.0,
        "columns": {
            "visitor": "pseudonym (vault, epoch 1)",
            "a-column-with-a-long-name" * 2: "generalised (dates)",
            "age": "generalised (ranges)",
            "note": f"kept: {'the study needs it ' * 8}",
        },
        "limits": LIMITS,
        "statistics": statistics(),
        "attack": attack(),
    }


def table() -> dict[str, Any]:
    """Of ``edgeveil publish table``."""
    facts = {"file": "table.csv", "sha256": "2" * 64, "rows": 12_345}
    return {**statement(), "schema": 1, "kind": "publication", "recipient": "<university>", "table": facts}


def archive() -> dict[str, Any]:
    """Of recordings."""
    said = statement()
    anonymity = {"link": said["link"], "asked": said["asked"], "found": said["found"], "suppressed": 15}
    above = ("statistics", "attack", "unique_after", "plan_sha256")
    return {
        **{key: said[key] for key in above},
        "format": 1,
        "recipient": "university",
        "pipeline_hash": "3" * 64,
        "bundle": {
            **{"sha256": "4" * 64, "card_sha256": "5" * 64, "artefact": "tflite-int8", "audited": True},
            "verdict": "nothing found",
        },
        "rows": 12_345,
        "dropped": 17,
        "anonymity": anonymity,
        "frames": [{"column": "frame", "shape": [28, 28, 1], "dtype": "uint8"}],
        "statement": {key: said[key] for key in ("loss", "unique_before", "columns", "limits")},
        "parts": [{"name": "part-00000.parquet", "sha256": "6" * 64, "rows": 12_345}],
    }


def statistics() -> dict[str, Any]:
    """One of each kind."""
    said = {"epsilon": 1.0, "rows_each": 1, "where": {}, "noise": "geometric", "scale": 1.0, "within": 3.38}
    bins = {f"{low} to below {low + 10}": 100 + low for low in range(0, 90, 10)}
    return {
        "epsilon": 3.0,
        "unit": "person",
        "released": [
            {**said, "name": "children", "kind": "count", "where": {"group": "children"}, "value": 37},
            {**said, "name": "ages", "kind": "histogram", "column": "age", "bins": {**bins, "other": -1}},
            {**said, "name": "minutes", "kind": "mean", "column": "minutes", "noise": "Laplace", "value": 254.8},
        ],
    }


def attack() -> dict[str, Any]:
    """Three views; the frames tell something."""
    verdict = {
        "word": "nothing found",
        "line": "",
        "findings": [],
        "limit": {"points": 15.0, "bits": 0.3},
        "reasons": [],
        "upper": {},
    }
    part = {"units": 585, "chance": 0.5, "best": ROW, "adversaries": [ROW], "not_run": [], "verdict": verdict}
    return {
        "sensitive": "illness",
        "target": "minutes",
        "unit": "person",
        "rows": 1017,
        "left_out_values": 1,
        "budget": "quick",
        "seed": 0,
        "views": {
            "columns": {**part, "warnings": []},
            "frames": {**part, "warnings": ["585 test rows give wide intervals."], "best": {**ROW, "name": "cnn"}},
            "both": {**part, "warnings": [], "verdict": {**verdict, "word": "leaks", "reasons": ["cnn gains 1"]}},
        },
        "copies": {"rows": 1017, "own": 2, "others": 40, "people": 9},
        "verdict": "leaks",
        "limit": {"points": 15.0, "bits": 0.3},
        "exceeded": [],
    }
