"""The privacy card: the maker's statement about a bundle, taken from audits alone.

docs/reference/privacy-card.md says how to read one; docs/reference/schemas/privacy.schema.json is its form. ``card`` is
a function of the audit and the manifest and of nothing else. So it is formed again wherever a bundle's card is shown:
an auditor signs the audit, and the card that a maker put next to it may have said something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgeveil.edge_runtime import __version__
from edgeveil.edge_runtime.bundle.audit_document import COUNTED
from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.manifest import stream_bound
from edgeveil.edge_runtime.manifest.count import parse_count
from edgeveil.edge_runtime.util import strict_json
from edgeveil.trainer.audit.findings import SENT, STREAM_BOUND, Finding, findings
from edgeveil.trainer.audit.verdict import EARLIER, board_name, column_title, sentences, verdict
from edgeveil.trainer.datasets.ranges import EXTREMES
from edgeveil.trainer.recipe.training_sections import revealed

SCHEMA = 2
STATEMENT = (
    "This card is the maker's own statement: EdgeVeil measured what it says, on the maker's machine and data, and "
    "no one else has checked it. The signature of the bundle says who made it, not that it is true."
)
LOWER_BOUND = (
    "Every attack's figure is a lower bound on what leaks: a stronger attack may find more. Only what stands under "
    "guarantees is more than a measurement, and only under the assumptions it names."
)
SUBSTITUTED = "What is sent are records of other people, put in the place of each reading: substituted."
COMPILED = "What a board compiles for itself out of an artefact (an engine, a blob) was not audited here."
COMPILED_ELSEWHERE = "What other boards than those named compile for themselves out of an artefact was not audited."
ADD_UP = {
    "frame": "A code of its own leaves with every frame; over many frames",
    "bout": "A class keeps the code of its first frame for a bout; over many bouts",
}
NOT_HERE = ("Boards themselves: timing, power and radio may tell what the frames do not.",)
# Fields that the card repeats of each audit; those of ``_FURTHER`` are not in every audit.
_PART = (
    *("artefact", "speaks_of", "pipeline", "created", "budget", "seed", "intervals", "backends", "versions"),
    *("machine", "findings", "verdict"),
)
_FURTHER = ("limits", "warnings", "on_board", "histogram")
_TOP = (
    "statement", "reading", "name", "perturber", "target", "sensitive", "data", "guarantees", "warnings", "not_tested",
)  # fmt: skip


def card(audit: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The card of an export: ``audit`` is its audit.json, with the audits of further artefacts under ``others``.

    Raises ``LookupError`` or ``TypeError`` where the audit lacks what a card must say.
    """
    documents = [audit, *(other for other in audit.get("others", []) if other["speaks_of"])]
    perturber = manifest["perturber"]
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
            "stream": manifest.get("stream"),
        },
        "target": {"name": perturber["target"], "classes": list(perturber["target_classes"])},
        "sensitive": {"name": perturber["sensitive"], "classes": audit["data"]["z_classes"]},
        "data": audit["data"],
        "artefacts": [
            {key: one[key] for key in _PART} | {key: one[key] for key in _FURTHER if one.get(key) is not None}
            for one in documents
        ],
        "guarantees": list(_guarantees(documents, manifest)),
        "warnings": list(dict.fromkeys(_warnings(documents, manifest))),
        "not_tested": list(_not_tested(documents)),
    }


def of_bundle(bundle: Bundle) -> dict[str, Any]:
    """The privacy card of a verified bundle, formed from its audit.

    Raises ``BadInput`` where there is no audit that this version can read, ``BundleRefused`` as ``check_sealed``.
    """
    if bundle.audit is None:
        raise BadInput(
            f"{bundle.manifest.name} was sealed without an audit, so it has no privacy card. Audit its export folder, "
            "then seal again."
        )
    try:
        privacy_card = card(bundle.audit, bundle.manifest.document)
        current(privacy_card)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(
            f"The audit of {bundle.manifest.name} is not one that this version can read (it lacks {error}). "
            "Audit and seal again."
        ) from None
    check_sealed(bundle, "card", strict_json.dumps(privacy_card))
    return privacy_card


def check_sealed(bundle: Bundle, member: str, made: bytes) -> None:
    """Raise ``BundleRefused`` (``bad-audit``) where this version sealed another ``card`` or ``page`` than it ``made``.

    Other versions use other words; what their bundles have is not shown, whatever it says.
    """
    by_this = bundle.manifest.document["provenance"]["edgeveil"] == __version__
    if by_this and bundle.members[getattr(bundle.manifest.privacy, member)] != made:
        raise BundleRefused(
            "bad-audit",
            f"The {member} of the privacy card of {bundle.manifest.name} is not the one of its audit: somebody changed "
            "it before it was sealed. Use none of it, and ask its maker for a bundle as edgeveil seal writes it.",
        )


def current(found: Mapping[str, Any]) -> dict[str, Any]:
    """A card whose artefacts have its ``data`` with them, and a verdict where they were audited before there was one.

    Raises ``LookupError``, ``TypeError``, ``ValueError`` or ``AttributeError`` for what is no card.
    """
    renewed = {"schema": SCHEMA, **{key: found[key] for key in ("kind", *_TOP)}}
    parts = [{**one, "data": renewed["data"]} for one in found["artefacts"]]
    return {**renewed, "artefacts": [{**part, "verdict": verdict(part)} for part in parts]}


def guarantees(part: Mapping[str, Any]) -> Iterator[Finding]:
    """The findings that are promises and certificates, each with its assumptions."""
    yield from (one for one in findings(part, SENT) if one.bound and one.text)


def _guarantees(documents: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Promises and certificates alone; what holds whatever is known first."""
    counts = parse_count(manifest.get("count"))
    if counts is not None and counts.noise is not None:
        yield {"artefact": COUNTED, "sentence": revealed(counts)}
    for document in documents:
        yield from ({"artefact": column_title(document), "sentence": one.text} for one in guarantees(document))


def _warnings(documents: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]) -> Iterator[str]:
    audit = documents[0]
    counts = parse_count(manifest.get("count"))
    if counts is not None and counts.noise is None:
        yield revealed(counts)
    if manifest["perturber"]["substituted"]:
        yield SUBSTITUTED
    if manifest["perturber"]["identity_allowed"]:
        yield "A reading may rightly leave as it came where this perturber finds nothing to change in it."
    every = [one for document in documents for one in findings(document)]
    if any(one.kind == "spending" and one.more.get("bounds") == "from-training" for one in every):
        yield EXTREMES
    yield from dict.fromkeys(one.not_run for one in every if one.not_run and one.kind in ("training", "head"))
    yield from (one.not_run for one in findings(audit, SENT) if one.kind == STREAM_BOUND and one.not_run)
    stream = manifest.get("stream") or {}
    if manifest.get("capture") is not None and stream_bound.unheld(manifest["stages"], manifest.get("stream")):
        tracks = [one.text for one in findings(audit) if one.more.get("headline")]
        yield " ".join([f"{stream_bound.UNHELD[:1].upper()}{stream_bound.UNHELD[1:]}.", *tracks])
    if stream.get("hold") in ADD_UP:
        what = ADD_UP[stream["hold"]]
        yield f"{what} of one person codes add up, and say who it is. The recipe acknowledges: {stream['acknowledged']}"
    for document in documents:
        where = f" on {board_name(document['on_board'])}" if "on_board" in document else ""
        if document is audit or where:
            exceeded = sentences(document.get("limits") or {"exceeded": []})
            yield from (f"A limit of the recipe is not met{where}. {text}" for text in exceeded)
        if document["verdict"] is None:
            yield f"{column_title(document)}: {EARLIER}"
    yield from audit.get("warnings") or []


def _not_tested(documents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    audit = documents[0]
    # First what holds for the whole card, then what only a board's column leaves open.
    yield from dict.fromkeys(line for document in documents for line in document["not_covered"])
    for one in findings(audit, SENT):
        if one.not_run and one.kind not in ("training", "head", "part", STREAM_BOUND):
            yield f"{one.question}{', ' if one.name else ''}{one.name} was not tried: {one.not_run}"
    if audit["budget"] == "quick":
        yield "Longer training of the adversaries, and more seeds: this was the quick audit."
    if audit["data"]["clusters"] is None:
        yield "People apart: the data do not say who is who, so rows of one person may be on both sides of the cut."
    yield COMPILED_ELSEWHERE if any("on_board" in document for document in documents) else COMPILED
    yield from NOT_HERE
