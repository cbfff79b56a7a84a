"""What is sent of one period: a JSON document of one size, whatever was counted. docs/reference/schemas has its schema.

{"kind": "edgeveil-count", "schema": 1, "bundle": "hall", "id": "...", "period": 28333, "period_s": 60,
 "state": "counted", "tick": 1200, "tick_ns": 1795433640000000000, "epsilon": null,
 "lines": {"door": {"in": 2, "out": 1}}, "zones": {"hall": {"occupancy": 3}}}
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from edgeveil.edge_runtime.ipc.record import MOST
from edgeveil.edge_runtime.manifest.count import MICRO, CountRules, document_of
from edgeveil.edge_runtime.util import strict_json

KIND, SCHEMA = "edgeveil-count", 1
COUNTED, PART, MISSING, SPENT = STATES = ("counted", "part", "missing", "spent")
_LONGEST_ID = "0" * 16 + "-" + "9" * 19


class CountReport(NamedTuple):
    """One period. ``state``: ``counted``, ``part`` (watched in part), ``missing`` (not watched) or ``spent`` (its
    budget is); ``values`` are None in the last two. ``tick_ns`` is when it left, nanoseconds since 1970, or None."""

    period: int
    state: str
    values: Optional[Sequence[int]]
    tick: int
    tick_ns: Optional[int]


class CountForm(object):
    """Makes the documents of one bundle, called ``name``. ``size`` is their length in bytes."""

    def __init__(self, rules: CountRules, name: str) -> None:
        self._rules, self._name = rules, name
        # The longest that may come: JSON allows spaces after a document.
        longest = CountReport(10**18, MISSING, [-MOST] * len(rules.names), 10**18, 10**19)
        self.size = len(self._bytes(longest, _LONGEST_ID))

    def document(self, report: CountReport, number: str) -> Dict[str, Any]:
        """The document of a report; ``number`` is its id, the same when it is sent twice."""
        noise = self._rules.noise
        values: List[Optional[int]] = [None] * len(self._rules.names)
        return dict(
            document_of(self._rules, values if report.values is None else list(report.values)),
            kind=KIND,
            schema=SCHEMA,
            bundle=self._name,
            id=number,
            period=report.period,
            period_s=self._rules.period_s,
            state=report.state,
            tick=report.tick,
            tick_ns=report.tick_ns,
            epsilon=None if noise is None else noise.micro_epsilon / MICRO,
        )

    def encode(self, report: CountReport, stream: bytes, number: int) -> bytes:
        """``size`` bytes; ``stream`` and ``number`` make the id."""
        return self._bytes(report, "{}-{}".format(stream.hex(), number)).ljust(self.size, b" ")

    def mine(self, record: bytes) -> bool:
        """Whether these bytes are a document of this bundle."""
        begin = b'{"bundle":' + strict_json.dumps(self._name) + b","
        return len(record) == self.size and record.startswith(begin)

    def _bytes(self, report: CountReport, number: str) -> bytes:
        return strict_json.dumps(self.document(report, number))
