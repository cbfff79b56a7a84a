"""All that goes out of a board, in one list: the capacity, the audit, the owner's policy and the promise go through it.

An outlet that carries values of readings gives them as entries like those of a manifest's ``outputs``: their capacity
is bounded, the audit attacks them, the promise must cover them. Each answers the same questions of what it carries
beyond that; an entry of the list that leaves an answer out is an error.
"""

from typing import Any, Callable, List, Mapping, NamedTuple, Tuple

Document = Mapping[str, Any]
Entry = Mapping[str, Any]
NONE, NOISE, EXACT = LEVELS = ("none", "noise", "exact")  # how what no attack reads goes out; more with each
HIDES = 10**6  # with more epsilon than this, 1, a record's noise hides no track: what it is added to counts as exact


class Outlet(NamedTuple):
    """``form``: what it is to a receiver. ``bound``: what limits what it tells. ``rule``: the module that holds that.

    Of a manifest's document: ``values`` are the entries that it carries. ``bits`` is what one record carries beyond
    them, ``told`` how, one of ``LEVELS``: no attack of an audit reads that, and a policy may limit it by the outlet's
    name. ``uncounted`` is why an owner who limits what is revealed cannot take it; empty where it is counted, or tells
    nothing of a reading.
    """

    name: str
    form: str
    bound: str
    rule: str
    values: Callable[[Document], List[Entry]]
    bits: Callable[[Document], float]
    told: Callable[[Document], str]
    uncounted: Callable[[Document], str]


def _unpromised(manifest: Document) -> str:
    return "" if manifest.get("spending") else "promises nothing of that"


def _count_bits(manifest: Document) -> float:
    rules = _counts(manifest)
    return 0.0 if rules is None else rules.bits


def _counts(manifest: Document) -> Any:
    """The rules of what is counted, or None."""
    if manifest.get("count") is None:
        return None
    from edgeveil.edge_runtime.manifest.count import parse_count  # few bundles count: the others start sooner

    return parse_count(manifest["count"])


def _counts_told(manifest: Document) -> str:
    rules = _counts(manifest)
    if rules is None:
        return NONE
    return NOISE if rules.noise is not None and rules.noise.micro_epsilon <= HIDES else EXACT


def _exact_counts(manifest: Document) -> str:
    count = manifest.get("count")
    return "its counts of people leave without noise" if count and count["noise"] is None else ""


def untold(_manifest: Document) -> str:
    """Attacks read all of it, or it tells nothing of a reading: no policy names it."""
    return NONE


_ATTACKED: Any = {"bits": lambda _manifest: 0.0, "told": untold, "uncounted": _unpromised}
_NO_READING: Any = dict(_ATTACKED, values=lambda _manifest: [], uncounted=lambda _manifest: "")

OUTLETS = [
    Outlet(
        "outputs",
        "arrays of one shape and type, one set a tick",
        "the audit, the capacity of codes, the map back to x, the promise",
        "edge_runtime.pipeline.reconstruction",
        values=lambda manifest: [entry for entry in manifest["outputs"] if entry["kind"] != "label"],
        **_ATTACKED,
    ),
    Outlet(
        "label",
        "an index of a class, with each tick",
        "the number of classes, the promise",
        "edge_runtime.pipeline.reconstruction",
        values=lambda manifest: [entry for entry in manifest["outputs"] if entry["kind"] == "label"],
        **_ATTACKED,
    ),
    Outlet(
        "counts",
        "whole numbers of people, one record a period",
        "the least period, 16 people, two-sided geometric noise and its budget of a day, the policy's counts",
        "edge_runtime.manifest.count",
        lambda _manifest: [],
        _count_bits,
        _counts_told,
        _exact_counts,
    ),
    Outlet(
        "drops",
        "reasons and numbers on pages of the device itself; on the network the ticks hide them",
        "ticks of one size and time, whatever was dropped",
        "edge_runtime.outside.emission",
        **_NO_READING,
    ),
    Outlet(
        "status",
        "running, degraded or spent; the shift of the codes",
        "no sooner than the end of a coarse period; the shift is computed of the outputs alone",
        "edge_runtime.outside.emission",
        **_NO_READING,
    ),
    Outlet(
        "card",
        "figures of the audit, the same for every frame",
        "made before the first frame, and signed",
        "edge_runtime.bundle.audit_document",
        **_NO_READING,
    ),
]


def values(manifest: Document) -> List[Entry]:
    """The entries of all values of readings that leave by a manifest's document, its ``outputs`` in their order."""
    place = {id(entry): number for number, entry in enumerate(manifest["outputs"])}
    entries = [entry for outlet in OUTLETS for entry in outlet.values(manifest)]
    return sorted(entries, key=lambda entry: place.get(id(entry), len(place)))


def bits(manifest: Document) -> float:
    """What one record of each outlet carries together, beyond ``values``."""
    return sum(outlet.bits(manifest) for outlet in OUTLETS)


def unattacked(manifest: Document) -> List[Tuple[Outlet, str]]:
    """The outlets of which no attack reads all, each with how that goes out: with noise, or exactly."""
    levels = [(outlet, outlet.told(manifest)) for outlet in OUTLETS]
    return [(outlet, level) for outlet, level in levels if level != NONE]


def uncounted(manifest: Document) -> str:
    """Why an owner who limits what is revealed cannot take all that is sent; empty where each outlet is counted."""
    return next((problem for outlet in OUTLETS for problem in [outlet.uncounted(manifest)] if problem), "")
