"""A board's report to its owner: a signed envelope of kind ``report``, always of one size.

Its payload is strict JSON::

    {"board": NAME, "number": N, "time_s": S, "unsent": N,
     "release": {"sha256": HEX, "name": TEXT, "security_version": N}, "floor": N, "runtime": HEX, "index_age_s": S,
     "update": {"outcome": WORD, "reason": WORD, "at_s": S},
     "health": {"service": WORD, "ready": BOOL, "temperature_c": N, "throttled": BOOL, "disk_free_mb": N},
     "logs": [LINE, ...], "pad": "....", "schema": 1}

``number`` only grows, so that an old report cannot pass for a new one; ``unsent`` counts those before it that did not
arrive. What a board does not know is null. Nothing in it comes from a frame; ``logs`` is empty unless the owner asked.
"""

from typing import Any, Dict, List, NamedTuple, Optional

from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.signing import envelope
from edgeveil.edge_runtime.signing.device_key import DeviceKey

KIND = "report"
BYTES, BYTES_WITH_LOGS = 4096, 16384
INSTALLED, NOTHING_NEW, BEGUN = "installed", "nothing-new", "begun"
REFUSED, TRIAL_FAILED, FAILED = "refused", "trial-failed", "failed"
_TEXT, _NUMBER, _BOOL = (str, 120), (int, 0), (bool, 0)
_PARTS: Dict[str, Dict[str, Any]] = {
    "release": {"sha256": _TEXT, "name": _TEXT, "security_version": _NUMBER},
    "update": {"outcome": _TEXT, "reason": _TEXT, "at_s": _NUMBER},
    "health": {
        "service": _TEXT,
        "ready": _BOOL,
        "temperature_c": _NUMBER,
        "throttled": _BOOL,
        "disk_free_mb": _NUMBER,
    },
}
_PLAIN = {"board": _TEXT, "number": _NUMBER, "time_s": _NUMBER, "unsent": _NUMBER, "schema": _NUMBER}
_KNOWN_OR_NOT = {"floor": _NUMBER, "runtime": _TEXT, "index_age_s": _NUMBER}
_KEYS = sorted([*_PARTS, *_PLAIN, *_KNOWN_OR_NOT, "logs", "pad"])


class Report(NamedTuple):
    """A report whose signature is valid: the key that signed it, and what it says."""

    key: str
    document: Dict[str, Any]


def sealed(document: Dict[str, Any], key: DeviceKey, logs: Optional[List[str]] = None) -> bytes:
    """The bytes of a report: ``BYTES`` of them, or ``BYTES_WITH_LOGS`` where ``logs`` is a list.

    Of ``logs``, lines of ASCII, as many of the last are taken as there is room for.
    """
    size = BYTES if logs is None else BYTES_WITH_LOGS
    taken: List[str] = []
    room = size - len(_enveloped(dict(document, logs=[], pad=""), key, signed=False))
    for line in reversed(logs or []):
        room -= len(strict_json.dumps(strict_json.dumps([line]).decode("ascii")))
        if room < 0:
            break
        taken.insert(0, line)
    whole = dict(document, logs=taken, pad="")
    pad = size - len(_enveloped(whole, key, signed=False))
    if pad < 0:
        raise ValueError("a report has more than {} bytes".format(size))
    return _enveloped(dict(whole, pad="." * pad), key, signed=True)


def read(data: bytes) -> Report:
    """The report in these bytes, once its signature was verified, whoever signed it. Raises ``BundleRefused``."""
    if len(data) not in (BYTES, BYTES_WITH_LOGS):
        _refuse("bad-size", "it has {} bytes, and a report has {} or {}".format(len(data), BYTES, BYTES_WITH_LOGS))
    found = envelope.parse(KIND, data)
    if found.schema != 1:
        _refuse("schema", "a device alone signs its report")
    document = envelope.verify(KIND, found)
    if type(document) is not dict or sorted(document) != _KEYS or document["schema"] != 1:
        _refuse("schema", "it has other keys than a report of schema 1")
    for name, kind in _PLAIN.items():
        _check(name, document[name], kind)
    for name, kind in _KNOWN_OR_NOT.items():
        _check(name, document[name], kind, optional=True)
    for part, kinds in _PARTS.items():
        if type(document[part]) is not dict or set(document[part]) != set(kinds):
            _refuse("schema", "{} has other keys".format(part))
        for name, kind in kinds.items():
            _check(name, document[part][name], kind, optional=True)
    if type(document["logs"]) is not list or type(document["pad"]) is not str:
        _refuse("wrong-type", "its logs are no list, or its filling is no text")
    for line in document["logs"]:
        _check("logs", line, (str, BYTES_WITH_LOGS))
    (key,) = found.signers
    return Report(key, document)


def _check(name: str, value: Any, kind: Any, *, optional: bool = False) -> None:
    wanted, most = kind
    if optional and value is None:
        return
    if type(value) is not wanted:
        _refuse("wrong-type", "{} is of another type".format(name))
    # A terminal shows it.
    if wanted is str and (len(value) > most or not all(" " <= letter <= "~" for letter in value)):
        _refuse("wrong-type", "{} is too long, or not of printable ASCII".format(name))


def _enveloped(document: Dict[str, Any], key: DeviceKey, *, signed: bool) -> bytes:
    payload = strict_json.dumps(document)
    signature = key.sign(envelope.message(KIND, payload)) if signed else bytes(64)
    return envelope.wrap(payload, key.public, signature)


def _refuse(reason: str, what: str) -> None:
    raise BundleRefused(reason, "This report is not valid: {}. Ask for another one.".format(what))
