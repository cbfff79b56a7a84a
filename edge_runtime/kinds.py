"""The registries of the runtime, and what must hold of a source and a sink before anything is opened.

A fact of a kind is a literal of its class; one that is absent is None, which every question here takes as no.
"""

import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

from edgeveil.edge_runtime.errors import BadInput, nearest
from edgeveil.edge_runtime.registry import PACKAGE, Kind, Registry

SOURCES = Registry(PACKAGE + ".sources", key="schemes", group="edgeveil.sources", word="source")
SINKS = Registry(PACKAGE + ".sinks", key="schemes", group="edgeveil.sinks", word="sink")
BACKENDS = Registry(PACKAGE + ".backends", key="name", group="edgeveil.backends", word="backend")
REGISTRIES = [SOURCES, SINKS, BACKENDS]  # devices/zipapp.py writes the table of each


def fact_of(registry: Registry, uri: str, name: str) -> Any:
    """A fact of the kind that a source or sink names before its colon; None where there is no such fact, or kind."""
    kind = registry.find(uri.partition(":")[0])
    return None if kind is None else kind.facts.get(name)


def reads_stdin(source: str) -> bool:
    """Whether a source is the standard input: its kind has the form ``SCHEME:-``."""
    return source.endswith(":-") and source in (fact_of(SOURCES, source, "forms") or ())


def backends(*, every: bool = False) -> List[Kind]:
    """Our backends in the order in which they are tried; ``every`` one, those of other packages too, last."""
    ordered = list(BACKENDS.kinds().values())
    ordered.sort(key=lambda kind: bool(kind.facts.get("last")))
    return ordered + (list(BACKENDS.plugins().values()) if every else [])


def formats() -> List[str]:
    """The formats of artefacts that ours run, and that a manifest may name."""
    return list(dict.fromkeys(format for kind in backends() for format in kind.facts["formats"]))


def needs_daemon(source: str) -> bool:
    """Whether a process of its own reads a source, without a network: a daemon at a socket has its frames, as of
    NVIDIA's CSI cameras, or it is read by a helper or a vendor's library (``apart``)."""
    if fact_of(SOURCES, source, "apart"):
        return True
    pattern = fact_of(SOURCES, source, "daemon")
    return pattern is not None and re.match(pattern, source.partition(":")[2]) is not None


def device_file(source: str) -> Optional[str]:
    """The device file of ``camera:0``, ``camera:/dev/...`` or ``serial:/dev/...,...``; None of any other source."""
    start, place = fact_of(SOURCES, source, "device_file"), re.split("[,?]", source.partition(":")[2])[0]
    return None if start is None else start + place if place.isdigit() else place


def options_of(source: str) -> Dict[str, str]:
    """The options behind a source's question mark, where its kind has any. Raises ``BadInput`` for others."""
    known, values = fact_of(SOURCES, source, "options"), {}
    text = source.partition("?")[2] if known else ""
    for pair in text.split("&") if text else []:
        name, _, value = pair.partition("=")
        if name in values or not re.fullmatch(known.get(name, "(?!)"), value):
            words = (
                "{} ({})".format(one, pattern.replace("|", ", ")) if re.fullmatch(r"[\w|]+", pattern) else one
                for one, pattern in known.items()
            )
            problem = "expected {}, each once, as in {}; got {!r}"
            raise BadInput(problem.format(", ".join(words), fact_of(SOURCES, source, "forms")[-1], pair))
        values[name] = value
    return values


def check_source(text: str) -> Tuple[str, str]:
    """Kind and place of a source. Raises ``BadInput`` with the nearest kind for one that there is not."""
    kind, colon, where = text.partition(":")
    entry = SOURCES.find(kind) if colon else None
    if entry is not None and (where or entry.facts.get("bare")):
        options_of(text)
        return kind, where
    known = _all(SOURCES)
    kinds = ", ".join(name + ":" for name in sorted(known))
    problem = "expected a source as KIND:WHERE, such as npz:FILE or images:DIR, with a KIND of {}; got {!r}"
    # The text after the colon may be an address with a password.
    given = kind + ":" if colon and where else text
    raise BadInput(problem.format(kinds, given) + _nearest(kind, dict.fromkeys(known, ""), SINKS))


def check_sink(uri: str) -> Tuple[str, str]:
    """Kind and place of a sink. Raises ``BadInput`` with the nearest kind for one that there is not."""
    kind, colon, where = uri.partition(":")
    entry = SINKS.find(kind) if colon else None
    if entry is not None and where and (where.startswith("//") or not entry.facts.get("network")):
        return kind, where
    known = _all(SINKS)
    *forms, last = dict.fromkeys(one.facts["forms"][0] for one in known.values())
    # The text after the colon may hold a password.
    example = re.sub(r"\[.*?\]", "", "{} or {}".format(", ".join(forms), last))
    problem = "expected a sink as {}; got {!r}".format(example, kind if colon else uri)
    starts = {name: "//" if one.facts.get("network") else "" for name, one in known.items()}
    raise BadInput(problem + _nearest(kind, starts, SOURCES))


def check_replay(source: str, realtime: bool, repeat: bool) -> bool:
    """Whether a source is a recording. Raises ``BadInput`` for another one that is to be played as one."""
    recording = bool(fact_of(SOURCES, source, "recording"))
    if (realtime or repeat) and not recording:
        problem = (
            "expected a recording ({}) to play in real time or again and again; {}: is not one. Leave that option out."
        )
        raise BadInput(problem.format(", ".join(with_fact("recording")), source.partition(":")[0]))
    return recording


def with_fact(name: str) -> List[str]:
    """The kinds of sources, each with its colon, that have a fact."""
    return [kind + ":" for kind, one in _all(SOURCES).items() if one.facts.get(name)]


def check_sensor(source: str, wanted: Optional[str]) -> None:
    """Raise ``BadInput`` where a source reads another sensor than the one that the bundle is for.

    ``wanted`` is the manifest's ``input.sensor``; None: the bundle does not say, and anything of its shape is taken.
    """
    given = fact_of(SOURCES, source, "sensor")
    if wanted is None or given is None or given == wanted:
        return
    fitting = {name: one.facts for name, one in _all(SOURCES).items() if one.facts.get("sensor") == wanted}
    gives = next((facts["gives"] for facts in fitting.values()), wanted)
    raise BadInput(
        "{}: gives {}, and this bundle is for {}: its output would mean nothing. Take one of {}, or a file of such "
        "samples".format(
            source.partition(":")[0],
            fact_of(SOURCES, source, "gives"),
            gives,
            ", ".join(name + ":" for name in fitting),
        )
    )


def check_shape(source: str, shape: Sequence[int]) -> None:
    """Raise ``BadInput`` where a source never gives frames of the shape that a bundle takes of its sensor.

    A bundle may not say which sensor it is for; its ``shape`` (manifest/sensor.py) still rules some out.
    """
    axes, channels = fact_of(SOURCES, source, "axes"), fact_of(SOURCES, source, "channels")
    if axes is None or (len(shape) == axes and (channels is None or shape[-1] in channels)):
        return
    raise BadInput(
        "{}: gives {}, and this bundle takes frames of {}: it could use none. Take a source or a file of such "
        "samples".format(source.partition(":")[0], fact_of(SOURCES, source, "gives"), " x ".join(map(str, shape)))
    )


def _all(registry: Registry) -> Dict[str, Kind]:
    return dict(registry.plugins(), **registry.kinds())


def _nearest(word: str, known: Dict[str, str], others: Registry) -> str:
    """A sentence with the kind that was meant, where one is near."""
    if word in known:
        return ". Write {}:{}...".format(word, known[word])
    if others.find(word) is not None:
        return ". {}: is a {}.".format(word, others.word)
    near = nearest(word, known)
    return ". Did you mean {}:{}?".format(near, known[near]) if near else ""
