"""For how many frames of a stream a bound holds, by a manifest's dataflow alone: the same on every door.

Frames of one person or thing depend on each other, so a bound of one frame says nothing of two: what is counted for
one release, Pufferfish's epsilon and delta included, does not compose. It would where frames were independent given y
and z, which nothing here assumes. Three things hold for more. A whole track that is *one release*, since all that is
sent of it is made of one frame or of one vote. *Answers* with a promise of epsilon, whatever their frames have to do
with each other, because each one's noise is its own (adaptive composition); a limit of draws or the ledger says how
many. And values that follow from the labels sent and fresh noise: they add nothing *given the labels*, of which there
is no bound.
"""

from typing import Any, Iterable, List, Mapping, NamedTuple, Optional, Set

from edgeveil.edge_runtime.manifest import outlets
from edgeveil.edge_runtime.stages import kind_of, reads_and_writes

ONE_CLASS, ONE_FRAME, ANSWERS, GIVEN_LABELS, NONE = "one class", "one frame", "answers", "given labels", "none"
BOUNDED = (ONE_CLASS, ONE_FRAME, ANSWERS)  # of all that is sent
ANOTHER = "one that is split, lost and found again, or met by a restart counts as another"
DEPENDENT = "frames of a stream depend on each other, so a bound of one frame says nothing of several"

UNHELD = (
    "a code of its own leaves with every reading and nothing holds it, so codes of many readings of one person add up: "
    'train with perturber.hold = "period:600s" or "track:7", or audit what a track reveals'
)


def unheld(stages: Iterable[Mapping[str, Any]], stream: Optional[Mapping[str, Any]]) -> bool:
    """Whether ``UNHELD`` is true of a live source: a class has several codes, and the manifest holds no stream."""
    return stream is None and any(stage.get("op") == "argmax_within" for stage in stages)


class StreamBound(NamedTuple):
    """``kind``: why a bound of all that ``frames`` send holds. ``frames`` None: any number, of one ``unit``.

    ``draws`` are the independent answers among them and ``epsilon`` is what each costs, of ``ANSWERS`` alone. ``line``
    is for a verdict, ``text`` the same with its reason and assumptions.
    """

    kind: str
    frames: Optional[int]
    unit: str
    line: str
    text: str
    draws: int = 1
    epsilon: float = 0.0


def stream_bound(manifest: Mapping[str, Any]) -> StreamBound:
    """The bound for a stream of a manifest whose flow is checked (``manifest.schema``): its ``stages``, ``outputs``,
    ``stream`` and ``spending`` are read."""
    stream = manifest.get("stream") or {}
    unit = {"track": "track", "period": "period of {} s".format(stream.get("period_s"))}.get(stream.get("hold", ""), "")
    draws = stream.get("draws") or 1
    walk = _Walk(manifest)
    if manifest.get("spending") is None:
        return _unpaid(stream, walk, unit, draws)
    return _answers(manifest, walk, unit, draws)


def _unpaid(stream: Mapping[str, Any], walk: "_Walk", unit: str, draws: int) -> StreamBound:
    """Where nothing is promised: by what a frame reaches."""
    if unit and not walk.reached(walk.sent, walk.voted):
        text = "what is sent of it is one class, voted by its first {} frames, and a draw from that: a bound that was "
        return _one(ONE_CLASS, unit, text.format(stream["votes"]) + "counted for whole tracks holds")
    if unit and not walk.reached(walk.sent, walk.first):
        if draws == 1:
            text = (
                "what is sent of it is made of its first frame, so a bound for one release holds where first frames "
                "are, given y and z, like the readings that it was counted on, whatever the later ones are"
            )
            return _one(ONE_FRAME, unit, text)
        return _none("{} frames of one {} are drawn for, and {}".format(draws, unit, DEPENDENT))
    if walk.labels and not walk.reached(walk.sent - walk.labels, walk.labels):
        line = "no bound for more than one frame of a stream; given the labels sent, nothing else adds to them"
        text = (
            "For any number of frames, what is sent adds nothing to the labels that are sent with them, one a frame, "
            "since it is drawn from these. Of the labels themselves there is no bound for more than one frame: {}."
        )
        return StreamBound(GIVEN_LABELS, None, unit, line, text.format(DEPENDENT))
    return _none(DEPENDENT)


def _none(why: str) -> StreamBound:
    line = "no bound for more than one frame of a stream"
    return StreamBound(NONE, 1, "", line, "There is {}: {}.".format(line, why))


def _one(kind: str, unit: str, text: str) -> StreamBound:
    line = "for any number of frames of one {}".format(unit)
    return StreamBound(kind, None, unit, line, "F{}, {}; {}.".format(line[1:], text, ANOTHER))


def _answers(manifest: Mapping[str, Any], walk: "_Walk", unit: str, draws: int) -> StreamBound:
    """Each answer costs what the manifest claims, which ``manifest.spending`` checks in the integers that ship."""
    from edgeveil.edge_runtime.manifest.spending import MICRO, repeats

    claim = manifest["spending"]
    each, most = claim["micro_epsilon"], claim["most_micro_epsilon"]
    paid = most // each
    again = "" if claim["period_s"] is None else " in {:g} s that the board is on".format(claim["period_s"])
    whose = "" if claim["unit"] == "release" else " of one {}".format(claim["unit"])
    stop = "the ledger, which a restart does not empty, stops {}{} at {:g}{}".format(
        "all answers" if not whose else "those", whose, most / MICRO, again
    )
    kept = bool(unit) and repeats(manifest["stages"], walk.entries)
    number = paid if not kept else draws if again else min(draws, paid)  # a period's limit begins anew within a track
    line = (
        "for any number of frames of one {}".format(unit) if kept else "for {:,} frames{}{}".format(paid, whose, again)
    )
    spent = "" if number == 1 else ", epsilon {:g} in all".format(number * each / MICRO)
    text = (
        "F{}, what is sent changes the odds of anything about them by a factor of at most e^{:g}: {:,} answer{} of "
        "epsilon {:g} each, whatever the frames have to do with each other, and labels are part of the answers; {}"
    ).format(line[1:], number * each / MICRO, number, "" if number == 1 else "s", each / MICRO, stop)
    text += "; {}".format(ANOTHER) if kept else ""
    text += "".join("; its {} are beyond that".format(outlet.name) for outlet in walk.beyond) + "."
    return StreamBound(ANSWERS, None if kept else paid, unit if kept else "", line + spent, text, number, each / MICRO)


class _Walk(object):
    """Where the values that are sent come from; ``beyond`` are the outlets that no attack reads."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self._input = manifest["input"]["name"]
        self._reads = {}  # of each value
        self.voted, self.first = set(), set()  # type: Set[str], Set[str]
        for stage in manifest["stages"]:
            reads, writes = reads_and_writes(stage)
            self._reads.update(dict.fromkeys(writes, reads))
            kind = kind_of(stage)
            if getattr(kind, "votes", False):
                self.voted.update(writes)
            elif getattr(kind, "limits", False):
                self.first.update(writes)
        self.entries = outlets.values(manifest)
        self.beyond = [outlet for outlet, _ in outlets.unattacked(manifest)]
        self.sent = {entry["tensor"] for entry in self.entries}
        self.labels = {entry["tensor"] for entry in self.entries if entry["kind"] == "label"}

    def reached(self, values: Set[str], stops: Set[str]) -> bool:
        """Whether a frame reaches any of ``values`` by a way around ``stops``."""
        pending: List[str] = sorted(values - stops)
        seen: Set[str] = set()
        while pending:
            name = pending.pop()
            if name == self._input:
                return True
            if name not in seen:
                seen.add(name)
                pending += [read for read in self._reads.get(name, []) if read not in stops]
        return False
