"""A bundle as a CycloneDX 1.6 ML-BOM: its privacy card as the model card, its files, and what exported it.

https://cyclonedx.org/docs/1.6/json/ is the form. cyclonedx-python-lib has no classes for model cards, so the document
is made here and checked by the library's strict validator.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from edgeveil.edge_runtime import __version__
from edgeveil.edge_runtime.bundle.audit_figures import FIGURES
from edgeveil.edge_runtime.bundle.reader import Bundle
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import AND
from edgeveil.trainer.audit.card import current
from edgeveil.trainer.audit.findings import SENT, Finding, findings
from edgeveil.trainer.audit.frozen import LICENCES
from edgeveil.trainer.audit.text import answers_in_words, figures
from edgeveil.trainer.audit.verdict import column_title, words
from edgeveil.trainer.recipe.training_sections import leaving
from edgeveil.trainer.report.card_page import page, shown

DETECTOR = "detector"
_NAMES = uuid.UUID("6f0f5b1e-3c0c-5d0e-9a53-0d5a3c1f2b77")  # so that one bundle has one serial number


def ml_bom(bundle: Bundle, card: Mapping[str, Any]) -> bytes:
    """The document as JSON; the same bundle gives the same bytes. ``card`` is the bundle's, of any schema.

    Raises ``BadInput`` where cyclonedx-python-lib is not installed, or where the card does not fit the form.
    """
    text = (
        json.dumps(_document(bundle, current(card)), indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False)
        + "\n"
    )
    _check(text)
    return text.encode()


def _check(text: str) -> None:
    try:
        from cyclonedx.exception import MissingOptionalDependencyException
        from cyclonedx.schema import SchemaVersion
        from cyclonedx.validation.json import JsonStrictValidator

        error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    except (ImportError, MissingOptionalDependencyException):
        raise BadInput(
            "A CycloneDX document is written only if it can be checked, and cyclonedx-python-lib with its JSON "
            'validation is not installed: pip install "edgeveil[cyclonedx]".'
        ) from None
    if error is not None:
        raise BadInput(f"The card does not fit CycloneDX 1.6 ({error.data.message}): seal the bundle again.")


def _document(bundle: Bundle, card: Mapping[str, Any]) -> dict[str, Any]:
    manifest = bundle.manifest.document
    provenance, has_detector = manifest["provenance"], bundle.manifest.detector is not None
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(_NAMES, bundle.manifest_sha256).urn,
        "version": 1,
        "metadata": {
            "timestamp": manifest["created"],
            "tools": {"components": [{"type": "application", "name": "edgeveil", "version": provenance["edgeveil"]}]},
            "component": {
                "type": "machine-learning-model",
                "bom-ref": "perturber",
                "name": manifest["name"],
                "version": bundle.manifest_sha256,
                "description": f"A perturber of the kind {card['perturber']['kind']}, sealed as an EdgeVeil bundle. "
                "Its version is the SHA-256 of its manifest.",
                "modelCard": _model_card(bundle, card),
                "properties": _properties(
                    signer=bundle.key,
                    development=bundle.development,
                    security_version=manifest["security_version"],
                    recipe_sha256=provenance["recipe_sha256"],
                    **{f"pipeline_sha256:{name}": sha256 for name, sha256 in manifest["privacy"]["pipeline"].items()},
                ),
            },
        },
        "components": [
            *([_detector(manifest)] if has_detector else []),
            *(
                {
                    "type": "file",
                    "bom-ref": member.name,
                    "name": member.name,
                    "hashes": [{"alg": "SHA-256", "content": member.sha256}],
                }
                for member in bundle.manifest.members
            ),
            *(
                {
                    "type": "library",
                    "bom-ref": f"pkg:pypi/{name}@{version}",
                    "purl": f"pkg:pypi/{name}@{version}",
                    "name": name,
                    "version": version,
                    "scope": "excluded",
                    "description": "Exported the perturber; not in the bundle.",
                }
                for name, version in sorted(provenance["packages"].items())
            ),
        ],
        "dependencies": [
            {"ref": "perturber", "dependsOn": [member.name for member in bundle.manifest.members]},
            *([{"ref": DETECTOR, "dependsOn": [manifest["detector"]["artefact"]["file"]]}] if has_detector else []),
        ],
    }


def _detector(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The network that finds the people who are counted, as a model of its own."""
    entry = manifest["detector"]["artefact"]
    picture = entry["inputs"][0]
    return {
        "type": "machine-learning-model",
        "bom-ref": DETECTOR,
        "name": DETECTOR,
        "description": "Finds the people who are counted. Whose it is, and what it was trained on, the bundle does not "
        "say; how well it finds people was not measured.",
        "hashes": [{"alg": "SHA-256", "content": entry["sha256"]}],
        "modelCard": {
            "modelParameters": {
                "task": "people in a picture",
                "inputs": [{"format": _format({"kind": "image", **picture})}],
                "outputs": [{"format": _format({"kind": one["name"], **one})} for one in entry["outputs"]],
            }
        },
        "properties": _properties(file=entry["file"], precision=entry["precision"]),
    }


def _model_card(bundle: Bundle, card: Mapping[str, Any]) -> dict[str, Any]:
    manifest, counts = bundle.manifest.document, bundle.manifest.counts
    counted = [] if counts is None else [{"format": f"counts of people, {leaving(counts)}"}]
    data, y, z = card["data"], card["target"]["name"], card["sensitive"]["name"]
    described = _properties(**{f"rows:{part}": count for part, count in data["rows"].items()})
    if data["name"] in LICENCES:
        described += _properties(licence=LICENCES[data["name"]])
    return {
        "modelParameters": {
            "task": f"perturbation on the sensor: keep {y}, hide {z}",
            "architectureFamily": card["perturber"]["kind"],
            "datasets": [
                {
                    "type": "dataset",
                    "name": data["name"],
                    "contents": {"properties": described},
                    "sensitiveData": z.split(AND),
                }
            ],
            "inputs": [{"format": _format(manifest["input"])}],
            "outputs": [*({"format": _format(output)} for output in manifest["outputs"]), *counted],
        },
        "quantitativeAnalysis": {"performanceMetrics": [row for part in card["artefacts"] for row in _metrics(part)]},
        "considerations": {
            "technicalLimitations": [card["statement"], card["reading"], *card["not_tested"]],
            "performanceTradeoffs": [text for part in card["artefacts"] for _, text in answers_in_words(part)],
            "ethicalConsiderations": [{"name": line} for line in card["warnings"]],
        },
        "properties": [
            {"name": f"edgeveil:guarantee:{one['artefact']}", "value": one["sentence"]} for one in card["guarantees"]
        ],
    }


def _metrics(part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The verdict and the figures of one audited artefact; ``slice`` names it."""
    where = f"test, {column_title(part)}"
    yield {"type": "verdict", "value": words(part), "slice": where}
    for one in findings(part):
        if one.value is not None and (one.of == SENT or one.kind in ("reader", "guess") or one.more.get("chosen")):
            yield {"type": _metric(one), "value": str(one.value), "slice": where, **_between(one)}


def _metric(one: Finding) -> str:
    most = "at most " if one.bound else ""
    of = "" if one.of == SENT else f", {one.of}"
    learned = f" on {one.learned_on} rows" if one.learned_on else ""
    about = f" ({one.about})" if one.about else ""
    return f"{one.question}, {one.name}{learned}{about}{of}: {most}{FIGURES[one.figure].words}"


def _between(one: Finding) -> dict[str, Any]:
    low, high = one.interval
    return (
        {} if low is None or high is None else {"confidenceInterval": {"lowerBound": str(low), "upperBound": str(high)}}
    )


def _properties(**facts: Any) -> list[dict[str, str]]:
    return [
        {"name": f"edgeveil:{name}", "value": json.dumps(value) if value in (True, False) else str(value)}
        for name, value in facts.items()
    ]


def _format(entry: Mapping[str, Any]) -> str:
    return f"{entry['kind']}, {'x'.join(map(str, entry['shape'])) or 'one number'}, {entry['dtype']}"


# Material for a data protection impact assessment (Art. 35 GDPR), made from a bundle: its card and its manifest.
#
# Numbers are the card's alone. What only the controller can know is marked as to be filled in. What the runtime does
# stands with the tests that show it.

_INSIDE, _EDGE = "tests/edge_runtime/inside", "tests/edge_runtime"

# What the runtime keeps, and the tests that show it.
RETAINED = (
    (
        "Raw frames of a live source are held in memory alone, by a process that can write no file, and are "
        "overwritten after use. Not overwritten: copies in the kernel, in drivers, decoders and interpreters, and a "
        "depth camera's model of the floor.",
        (
            f"{_INSIDE}/test_isolation.py::test_no_file_grows_and_no_core_is_left",
            f"{_EDGE}/pipeline/test_live.py::test_every_frame_comes_out_or_is_counted_and_is_zeros_afterwards",
            f"{_EDGE}/pipeline/test_live.py::test_nothing_that_was_made_of_a_frame_on_its_way_is_left_in_memory",
        ),
    ),
    (
        "A person's track, where the perturber holds one, is forgotten when it ends.",
        (
            f"{_EDGE}/pipeline/test_live.py::test_a_track_is_forgotten_after_the_frame_that_shows_its_end_and_before_the_next",
        ),
    ),
    (
        "Logs name events and counts, never a value of a frame. The last events are kept in memory; those of start, "
        "stop and degraded service also go to the system's log.",
        (
            f"{_EDGE}/test_frames.py::test_a_raw_frame_in_a_log_shows_no_value",
            f"{_INSIDE}/test_isolation.py::test_counters_outlive_who_counts_and_hold_words_alone",
        ),
    ),
    (
        "Perturbed records that cannot be delivered wait in memory, or in a folder if one is configured, until they "
        "are delivered, too old, or the space is used up.",
        (
            f"{_EDGE}/sinks/test_network_spool.py::test_what_is_too_old_goes_uncalled",
            f"{_EDGE}/sinks/test_network_spool.py::test_the_oldest_go_first_when_it_is_full",
        ),
    ),
    ("Sinks to files keep what is perturbed until somebody deletes it.", ()),
)

# What happens when something goes wrong, and the tests that show it.
FAIL_CLOSED = (
    (
        "A bundle that is not exactly what a trusted key signed does not run.",
        ("tests/hostile_bundles", f"{_EDGE}/bundle/test_reader.py::test_there_is_no_byte_that_could_be_another"),
    ),
    (
        "A bundle that hides less than the owner's policy asks for does not run.",
        (f"{_EDGE}/bundle/test_policy.py::test_a_device_refuses_at_install_and_at_open",),
    ),
    (
        "The process with the raw frames has no network (a network camera is fetched by another process, which has).",
        (
            f"{_INSIDE}/test_isolation.py::test_no_socket_can_be_made_inside",
            f"{_INSIDE}/test_leaks.py::test_strace_sees_no_socket_inside",
        ),
    ),
    (
        "An error drops the frame; no fault lets a raw one out, and each guard against that is needed.",
        (
            f"{_INSIDE}/test_leaks.py::test_no_fault_lets_a_raw_frame_out",
            f"{_INSIDE}/test_leaks.py::test_each_guard_is_one",
            f"{_EDGE}/test_frames.py::test_a_sink_takes_perturbed_frames_alone",
        ),
    ),
    (
        "An interpreter that computes something else, and a perturber that lets samples through unchanged, stop the "
        "device; what waits to be sent is deleted.",
        (
            f"{_EDGE}/pipeline/test_perturber.py::test_wrong_production_kernels_are_caught",
            f"{_EDGE}/pipeline/test_perturber.py::test_thirty_unchanged_frames_in_a_row_stop_everything_for_good",
            f"{_INSIDE}/test_leaks.py::test_golden_vectors_that_fail_leave_nothing_behind",
        ),
    ),
    (
        "What is sent, and when, is the same with and without a fault.",
        (f"{_EDGE}/outside/test_emission_is_constant.py::test_a_receiver_cannot_tell_a_fault_from_the_schedule",),
    ),
    (
        "After a power cut a board runs a whole old or a whole new release.",
        (f"{_EDGE}/releases/test_store.py::test_after_any_power_cut_the_board_runs_a_whole_release",),
    ),
)

# Of docs/explanation/threat-model.md: what no figure of a card covers.
BEYOND = (
    "Anyone who controls the board, its memory or its lens has the raw samples.",
    "Several samples of one person, linked, tell more than one, except where a figure names tracks or linked codes.",
    "Each service counts epsilon for itself: a person before the cameras of several, on one board or on many, pays in "
    "each, and the epsilons add up.",
    "Code that runs in the process with the raw frames, after a decoder was taken over, has a narrow way out.",
)


def render(bundle: Bundle, card: Mapping[str, Any], signer: str) -> str:
    """The page of a verified bundle, whose card is ``card`` and whose signer is called ``signer``."""
    manifest, counts, card = bundle.manifest.document, bundle.manifest.counts, current(card)
    artefacts = [
        {**part, **shown(part), "title": column_title(part), "figures": figures(part)} for part in card["artefacts"]
    ]
    return page(
        "dpia.html",
        {
            "bundle": bundle,
            "manifest": manifest,
            "card": {**card, "artefacts": artefacts},
            "signer": signer,
            "counted": None if counts is None else leaving(counts),
            "detector": manifest.get("detector"),
            "more": [one for one in manifest["outputs"] if one["kind"] != "label"],
            "retained": RETAINED,
            "fail_closed": FAIL_CLOSED,
            "beyond": BEYOND,
            "version": __version__,
        },
    )
