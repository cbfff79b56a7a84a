"""The privacy card: the maker's statement about a bundle, taken from audits alone.

docs/reference/privacy-card.md says how to read one; docs/reference/schemas/privacy.schema.json is its form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest import outlets
from edgeveil.edge_runtime.manifest.count import parse_count
from edgeveil.edge_runtime.util import strict_json
from edgeveil.trainer.audit.document import same
from edgeveil.trainer.audit.sections import sections
from edgeveil.trainer.audit.verdict import (
    CANNOT_TELL,
    EARLIER,
    HEAD,
    LEAKS,
    attack_line,
    board_name,
    by_reader,
    column_title,
    guess,
    notes,
    percent,
    probe_lines,
    sentence,
    span,
    verdict,
    what_else_lines,
    what_else_sentence,
    words,
)
from edgeveil.trainer.recipe.training_sections import Limits, revealed

SCHEMA = 1
STATEMENT = (
    "This card is the maker's own statement: EdgeVeil measured what it says, on the maker's machine and data, and "
    "nobody else has checked it. The signature of the bundle says who made it, not that it is true."
)
LOWER_BOUND = (
    "Every attack's figure is a lower bound on what leaks: a stronger attack may find more. Only what stands under "
    "guarantees is more than a measurement, and only under the assumptions it names."
)
SUBSTITUTED = "What leaves are records of other people, put in the place of each reading: substituted."
COMPILED = "What a board compiles for itself out of an artefact (an engine, a blob) was not audited here."
COMPILED_ELSEWHERE = "What other boards than those named compile for themselves out of an artefact was not audited."
NOT_HERE = ("Boards themselves: timing, power and radio may tell what the frames do not.",)
# Fields that the card copies from an audit; those of ``_FURTHER`` and the sections are not in every audit.
_WHOLE = ("artefact", "speaks_of", "pipeline", "created", "budget", "seed", "intervals", "target", "raw", "chance")
_ATTACKS = ("adversaries", "not_run", "worst_adaptive", "most_bits", "label_only")
_FURTHER = (
    "fixed_reader", "limits", "permutation", "counting", "learning_curve", "warnings", "parts", "what_else", "probes",
)  # fmt: skip
_PROVENANCE = ("backends", "versions", "machine")
_FORMED = ("sentence", "verdict", "leakage_about_others")
_TOP = (
    "statement", "reading", "name", "perturber", "target", "sensitive", "data", "guarantees", "warnings", "not_tested",
)  # fmt: skip


def card(audit: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The card of an export: ``audit`` is its audit.json, with the audits of further artefacts under ``others``.

    Raises ``LookupError`` or ``TypeError`` where the audit lacks what a card must say.
    """
    documents = [audit, *(other for other in audit.get("others", []) if other["speaks_of"])]
    perturber = manifest["perturber"]
    stream = manifest.get("stream")
    return {
        "schema": SCHEMA,
        "kind": "edgeveil-privacy-card",
        "statement": STATEMENT,
        "reading": LOWER_BOUND,
        "name": manifest["name"],
        "perturber": {
            "kind": perturber["kind"],
            "substituted": perturber["substituted"],
            "identity_allowed": perturber["identity_allowed"],
            "stream": stream,
        },
        "target": {"name": perturber["target"], "classes": list(perturber["target_classes"])},
        "sensitive": {"name": perturber["sensitive"], "classes": audit["data"]["z_classes"]},
        "data": audit["data"],
        "artefacts": [_artefact(document) for document in documents],
        "guarantees": list(_guarantees(documents, manifest)),
        "warnings": list(_warnings(documents, manifest)),
        "not_tested": list(_not_tested(documents)),
    }


def of_bundle(bundle: Bundle) -> dict[str, Any]:
    """The privacy card of a verified bundle. Raises ``BadInput`` where it has none that this version can read."""
    name = bundle.manifest.privacy.card
    if name is None:
        raise BadInput(
            f"{bundle.manifest.name} was sealed without an audit, so it has no privacy card. Audit its export folder, "
            "then seal again."
        )
    try:
        found = strict_json.loads(bundle.members[name])
        lacks = [key for key in _TOP if key not in found]
        for part in found["artefacts"]:
            lacks += [key for key in (*_WHOLE, *_ATTACKS, *_PROVENANCE, *_FORMED) if key not in part]
    except (strict_json.BadJson, LookupError, TypeError) as error:
        lacks = [str(error)]
    if lacks:
        raise BadInput(
            f"The privacy card of {bundle.manifest.name} is not one that this version can read (it lacks {lacks[0]}). "
            "Audit and seal again."
        )
    return dict(found)


def _artefact(document: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: document[key] for key in (*_WHOLE, *_ATTACKS, *_PROVENANCE)}
    further = (*_FURTHER, *(section.name for section in sections() if section.on_card))
    found.update({key: document[key] for key in further if document.get(key) is not None})
    leaks = list(leakage(document))
    return {**found, "sentence": sentence(document), "verdict": words(document), "leakage_about_others": leaks}


def leakage(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What is kept of every further attribute, as leakage about it, with label-only's to compare."""
    useful = document.get("collateral")
    if not useful:
        return
    floor = document["label_only"].get("collateral", {}).get("label_only_mean", {}).get("read_from_it", {})
    for name, found in useful["perturbed"]["read_from_it"]["attributes"].items():
        yield {
            "attribute": name,
            "read_from_it": found,
            "label_only": floor.get("attributes", {}).get(name),
            "kept": useful["kept"].get(name),
            "chance": useful["chance"].get(name),
            "named_by_recipe": useful["attributes"][name]["named_by_recipe"],
        }


def _guarantees(documents: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Promises and certificates alone, each with its assumptions; what holds whatever is known first."""
    counts = parse_count(manifest.get("count"))
    if counts is not None and counts.noise is not None:
        yield {"artefact": "counts of people", "sentence": revealed(counts)}
    for document in documents:
        for section in sections():
            for text in section.guarantees(document[section.name]) if document.get(section.name) else ():
                yield {"artefact": column_title(document), "sentence": text}
        if "population_free" in (document.get("certificate") or {}):
            yield {"artefact": column_title(document), "sentence": document["certificate"]["population_free"]}


def _warnings(documents: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]) -> Iterator[str]:

    audit = documents[0]
    counts = parse_count(manifest.get("count"))
    if counts is not None and counts.noise is None:
        yield revealed(counts)
    if manifest["perturber"]["substituted"]:
        yield SUBSTITUTED
    if manifest["perturber"]["identity_allowed"]:
        yield "A reading may rightly leave as it came where this perturber finds nothing to change in it."
    if (audit.get("spending") or {}).get("bounds") == "from-training":
        yield "The bounds that readings are clipped to are extremes of training rows, and they ship with the bundle."
    yield from dict.fromkeys(
        document[part]["sentence"]
        for part in ("training", "head")
        for document in documents
        if part in document and not document[part]["given"]
    )
    stream = manifest.get("stream") or {}
    if manifest.get("capture") is not None and outlets.unheld(manifest["stages"], manifest.get("stream")):
        found = (audit.get("streams") or {}).get("headline")
        yield f"{outlets.UNHELD[:1].upper()}{outlets.UNHELD[1:]}." + (f" {found}" if found else "")
    if stream.get("hold") == "frame":
        yield (
            "A code of its own leaves with every frame; over many frames of one person codes add up, and say who it "
            f"is. The recipe acknowledges: {stream['acknowledged']}"
        )
    if stream.get("hold") == "bout":
        yield (
            "A class keeps the code of its first frame for a bout; over many bouts of one person codes add up, and say "
            f"who it is. The recipe acknowledges: {stream['acknowledged']}"
        )
    for document in documents:
        where = f" on {board_name(document['on_board'])}" if "on_board" in document else ""
        if document is audit or where:
            exceeded = sentences(document.get("limits") or {"exceeded": []})
            yield from (f"A limit of the recipe is not met{where}. {text}" for text in exceeded)
        if "verdict" not in document:
            yield f"{column_title(document)}: {EARLIER}"
    yield from audit.get("warnings") or []


def _not_tested(documents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    audit = documents[0]
    # First what holds for the whole card, then what only a board's column leaves open.
    yield from dict.fromkeys(line for document in documents for line in document["not_covered"])
    for left in audit["not_run"]:
        yield f"{left['name']} did not attack: {left['reason']}."
    for asked, rows in (audit.get("probes") or {}).items():
        yield from (f"{asked}, {row['name']} was not tried: {row['not_run']}" for row in rows if "not_run" in row)
    if audit["budget"] == "quick":
        yield "Longer training of the adversaries, and more seeds: this was the quick audit."
    if audit["data"]["clusters"] is None:
        yield "People apart: the data do not say who is who, so rows of one person may be on both sides of the cut."
    yield COMPILED_ELSEWHERE if any("on_board" in document for document in documents) else COMPILED
    yield from NOT_HERE


# A recipe's privacy limits against the figures of an audit (exit code 3 where one is exceeded).

_WORDS = {
    "attack_points": "The best attack found is {found:.1f} points over chance: the recipe allows {asked:g} "
    "(limits.attack_points), exceeded by {by:.1f}.",
    "bits": "The attack with most bits learns {found:.3f} bits per sample beyond y: the recipe allows {asked:g} "
    "(limits.bits), exceeded by {by:.3f}.",
}
_UPPER = {
    "attack_points": "Attacks may reach {found:.1f} points over chance (upper end of 95 %): the recipe allows "
    "{asked:g} (limits.attack_points), exceeded by {by:.1f}.",
    "bits": "Attacks may learn {found:.3f} bits per sample beyond y (upper end of 95 %): the recipe allows {asked:g} "
    "(limits.bits), exceeded by {by:.3f}.",
}
_UNKNOWN = (
    "The recipe allows {asked:g} (limits.{limit}), and the audit has no upper end to compare: too few test units."
)


def check(limits: Limits, verdict: Mapping[str, Any]) -> dict[str, Any]:
    """The ``limits`` section: what was asked, what was ``found``, and ``exceeded``, a list with what and by how much.

    ``verdict`` is the document's. What is found are upper ends of the attacks' 95 % intervals: points over the better
    of both chances, also of balanced accuracy, and bits beyond counting z given y. A limit is met where they show it.
    """
    asked, upper = limits_of(limits), verdict["upper"]
    both = [upper[name] for name in ("points", "balanced") if name in upper]
    found = {"attack_points": None if None in both else max(both), "bits": upper.get("bits")}
    exceeded = []
    for name, limit in asked.items():
        high = found[name]
        if limit is not None and (high is None or high > limit):
            by = None if high is None else round(high - limit, 6)
            exceeded.append({"limit": name, "asked": limit, "found": high, "by": by, "upper_end": True})
    return {"asked": asked, "found": found, "exceeded": exceeded}


def limits_of(limits: Limits) -> dict[str, float | None]:
    """What the recipe asks of attacks; None where it asks nothing."""
    return {"attack_points": limits.attack_points, "bits": limits.bits}


def sentences(section: Mapping[str, Any]) -> list[str]:
    """One sentence for each limit that was exceeded; older audits compared estimates."""
    found = []
    for row in section["exceeded"]:
        words = _WORDS if "upper_end" not in row else _UPPER
        found.append((_UNKNOWN if row["found"] is None else words[row["limit"]]).format(**row))
    return found


# How an audit ends on a terminal: what is kept, what leaks, what is certified, and what to do next.


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
        f"Kept: {y} is read right {rate(document['target'])}{by_reader(document)} (of raw samples {percent(raw)}).",
        f"Leaks beyond {y}: {_word(document)}. The best attack found ({worst['name']}) reads {z} right {rate(worst)}, "
        f"and {y} alone gives {percent(guess(document))}; most bits: {span(gained, '+.3f')} ({bits['name']}).",
        *_of_streams(document),
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


def _of_streams(document: Mapping[str, Any]) -> list[str]:
    """What the longest tracks tell, where the bundle is for a camera or a series."""
    found = document.get("streams") or {}
    return [f"Streams: {found['headline']}"] if "headline" in found else []


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


def as_text(document: Mapping[str, Any]) -> str:
    """The document for a terminal: the perturber, then label-only; every non-adaptive number is marked as such."""
    data, raw = document["data"], document["raw"]
    lines = [
        sentence(document),
        "",
        headline(document),
    ]
    for title, part in (("this perturber", document), ("label-only (the floor)", document["label_only"])):
        target, chance, worst = part["target"], part["chance"], part["worst_adaptive"]
        lines += [
            "",
            f"{title}: {data['target']} right {rate(target)} (raw {percent(raw['target']['accuracy'])}); "
            f"chance at {data['sensitive']}: prior {percent(chance['prior'])}, majority "
            f"{percent(chance['majority'])}",
            HEAD,
            *(attack_line(row, best=same(row, worst)) for row in part["adversaries"]),
            *notes(part),
        ]
    lines += ["", *what_else_lines(document), *probe_lines(document)]
    lines.append("")
    for section in sections():
        if section.name in document:
            lines += section.lines(document[section.name], document)
    lines += ["", *limit_lines(document), *closing(document)]
    return "\n".join(lines)
