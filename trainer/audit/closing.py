"""How an audit ends on a terminal: what is kept, what leaks, what is certified, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeveil.trainer.audit.limits import sentences
from edgeveil.trainer.audit.text import percent, span, what_else_sentence
from edgeveil.trainer.audit.verdict import CANNOT_TELL, LEAKS, guess, verdict, words


def summary(document: Mapping[str, Any]) -> str:
    """The audit in a few lines, the three of ``closing`` last."""
    lines = [headline(document)]
    if document.get("what_else"):
        lines.append(what_else_sentence(document))
    return "\n".join([*lines, *limit_lines(document), *closing(document)])


def closing(document: Mapping[str, Any]) -> list[str]:
    """What is kept, what leaks beyond y by the best attack found, what is promised, if anything, and certified."""
    data, worst, bits = document["data"], document["worst_adaptive"], document["most_bits"]
    y, z = data["target"], data["sensitive"]
    raw = document["raw"]["target"]["accuracy"]
    gained = {"mean": bits["bits_counted"], "low": bits.get("bits_counted_low"), "high": bits.get("bits_counted_high")}
    return [
        f"Kept: {y} is read right {rate(document['target'])} (of raw samples {percent(raw)}).",
        f"Leaks beyond {y}: {_word(document)}. The best attack found ({worst['name']}) reads {z} right {rate(worst)}, "
        f"and {y} alone gives {percent(guess(document))}; most bits: {span(gained, '+.3f')} ({bits['name']}).",
        *([f"Promised: {document['spending']['sentence']}"] if document.get("spending") else []),
        *([f"Of training: {document['training']['sentence']}"] if "training" in document else []),
        *measured_spending(document),
        *_of_head(document, y),
        f"Certified: {_certified(document['certificate'])}",
    ]


def next_step(document: Mapping[str, Any], folder: Path) -> str:
    """What to do with an audited export folder."""
    seal = f"Next: edgeveil seal {folder} --key keys/signing.key --out FILE.veil"
    word = verdict(document)["word"]
    if word == LEAKS:
        return f"{seal} (its card says that it leaks; edgeveil recipe list names other perturbers)"
    if word == CANNOT_TELL:
        return f"{seal} (its card says that this cannot be told; more test data may tell)"
    return seal


def headline(document: Mapping[str, Any]) -> str:
    """What was audited, on which data, how hard."""
    data = document["data"]
    return (
        f"{document['artefact']} of {document['perturber']} on {data['name']}: {data['rows']['test']} test rows, "
        f"{document['budget']} audit, 95 % intervals ({document['intervals']})"
    )


def measured_spending(document: Mapping[str, Any], *, broken: bool = False) -> list[str]:
    """What a training's mechanisms spend by running them, a line for each; ``broken``: of claims that do not hold."""
    rows = [{"measure": "mu", **row} for row in document.get("training", {}).get("measured", [])]
    rows += [row for row in [document.get("head", {}).get("measured")] if row is not None]
    return [_spent(row) for row in rows if not (broken and row["holds"])]


def _spent(row: Mapping[str, Any]) -> str:
    least = "any number (no noise)" if row["at_least"] is None else f"{row['at_least']:.4g}"
    return (
        f"Of {row['mechanism']}, {row['measure']} is {row['claimed']:.4g} as claimed and at least {least} by "
        f"{row['runs']:,} runs of each of two neighbours"
        + (", not above the claim." if row["holds"] else ": the claim does not hold. Do not ship this, and report it.")
    )


def _of_head(document: Mapping[str, Any], y: str) -> list[str]:
    if "head" not in document:
        return []
    of = {"reading": "the reading", "sent": "what is sent"}[document["head"]["of"]]
    return [f"Head, of {of}: {y} is right {rate(document['head']['target'])}. {document['head']['sentence']}"]


def limit_lines(document: Mapping[str, Any]) -> list[str]:
    """A line for each of the recipe's limits that is not met."""
    return [f"LIMIT NOT MET. {text}" for text in sentences(document["limits"])]


def rate(value: Mapping[str, float]) -> str:
    """A rate with its interval."""
    return f"{percent(value['accuracy'])} [{percent(value['low'])}, {percent(value['high'])}]"


def _word(document: Mapping[str, Any]) -> str:
    word = verdict(document)["word"]
    said = {LEAKS: "yes, surely", CANNOT_TELL: "this audit cannot tell"}.get(word, f"nothing found; {words(document)}")
    return f"{said}, a lower bound" if word not in (LEAKS, CANNOT_TELL) else said


def _certified(certificate: Mapping[str, Any]) -> str:
    bound = certificate.get("per_code")
    for one in (bound, certificate):
        if one and one["given"]:
            return str(one["sentence"])
    return f"no bound. {(bound or certificate)['sentence']}"
