"""All that goes out of a board, in one list: the capacity, the audit, the owner's policy and the promise go through it.

An outlet that carries values of readings gives them as entries like those of a manifest's ``outputs``: their capacity
is bounded, the audit attacks them, the promise must cover them. What it carries beyond that it bounds itself.
"""

from typing import Any, Callable, Iterable, List, Mapping, NamedTuple, Optional

Document = Mapping[str, Any]
Entry = Mapping[str, Any]


class Outlet(NamedTuple):
    """``form``: what it is to a receiver. ``bound``: what limits what it tells. ``rule``: the module that holds that.

    ``values`` are the entries that it carries of a manifest's document, ``uncounted`` why an owner who limits what is
    revealed cannot take it; empty where it is counted, or tells nothing of a reading.
    """

    name: str
    form: str
    bound: str
    rule: str
    values: Callable[[Document], List[Entry]] = lambda _manifest: []
    uncounted: Callable[[Document], str] = lambda _manifest: ""


def _unpromised(manifest: Document) -> str:
    return "" if manifest.get("spending") else "promises nothing of that"


def _exact_counts(manifest: Document) -> str:
    count = manifest.get("count")
    return "its counts of people leave without noise" if count and count["noise"] is None else ""


OUTLETS = [
    Outlet(
        "outputs",
        "arrays of one shape and type, one set a tick",
        "the audit, the capacity of codes, the map back to x, the promise",
        "edge_runtime.pipeline.reconstruction",
        lambda manifest: [entry for entry in manifest["outputs"] if entry["kind"] != "label"],
        _unpromised,
    ),
    Outlet(
        "label",
        "an index of a class, with each tick",
        "the number of classes, the promise",
        "edge_runtime.pipeline.reconstruction",
        lambda manifest: [entry for entry in manifest["outputs"] if entry["kind"] == "label"],
        _unpromised,
    ),
    Outlet(
        "counts",
        "whole numbers, one record a period",
        "the least period, two-sided geometric noise and its budget of a day",
        "edge_runtime.manifest.count",
        uncounted=_exact_counts,
    ),
    Outlet(
        "drops",
        "reasons and numbers on pages of the device itself; on the network the ticks hide them",
        "ticks of one size and time, whatever was dropped",
        "edge_runtime.outside.emission",
    ),
    Outlet(
        "status",
        "running, degraded or spent; the shift of the codes",
        "no sooner than the end of a coarse period; the shift is computed of the outputs alone",
        "edge_runtime.outside.emission",
    ),
    Outlet(
        "card",
        "figures of the audit, the same for every frame",
        "made before the first frame, and signed",
        "edge_runtime.bundle.audit_document",
    ),
]


def values(manifest: Document) -> List[Entry]:
    """The entries of all values of readings that leave by a manifest's document, its ``outputs`` in their order."""
    place = {id(entry): number for number, entry in enumerate(manifest["outputs"])}
    found = [entry for outlet in OUTLETS for entry in outlet.values(manifest)]
    return sorted(found, key=lambda entry: place.get(id(entry), len(place)))


def uncounted(manifest: Document) -> str:
    """Why an owner who limits what is revealed cannot take all that is sent; empty where each outlet is counted."""
    return next((problem for outlet in OUTLETS for problem in [outlet.uncounted(manifest)] if problem), "")


UNHELD = (
    "a code of its own leaves with every reading and nothing holds it, so codes of many readings of one person add up: "
    'train with perturber.hold = "period:600s" or "track:7", or audit what a track reveals'
)


def unheld(stages: Iterable[Entry], stream: Optional[Document]) -> bool:
    """Whether ``UNHELD`` is true of a live source: a class has several codes, and the manifest holds no stream."""
    return stream is None and any(stage.get("op") == "argmax_within" for stage in stages)
