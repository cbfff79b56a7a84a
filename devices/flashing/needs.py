"""What a source and its sinks need on a board, from the facts of their kinds: one list for plan, dry run and check."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from packaging.version import InvalidVersion, Version

from edgeveil.devices.flashing.records import PAHO, Facts, Refused, Wanted, Wheels
from edgeveil.devices.profiles import Profile, Service
from edgeveil.edge_runtime import late_imports
from edgeveil.edge_runtime.kinds import SINKS, SOURCES, device_file, fact_of
from edgeveil.edge_runtime.paths import named
from edgeveil.edge_runtime.registry import Registry
from edgeveil.edge_runtime.sinks.network_base import explain
from edgeveil.edge_runtime.sinks.uri import without_secrets

_STATE = "/var/lib/edgeveil"
_HIDDEN = ("/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/")  # noqa: S108 - ProtectHome=, PrivateTmp= of the units
_TRIED_AS = "nobody"  # the account without rights, as a trial has none


@dataclass(frozen=True)
class Need:
    """One thing that must be there. ``test`` is what the board is asked (``devices/agents/gather_facts.py``).

    ``of`` is the source or sink without secrets; ``library`` a key of ``late_imports.LIBRARIES``.
    """

    what: str
    test: str
    of: str
    library: str = ""
    cure: str = ""

    @property
    def wheel(self) -> str:
        """The package of the index that brings it; empty where none does."""
        return late_imports.library(self.library).wheel if self.library else ""

    def state(self, facts: Facts) -> str:
        """Why it does not hold on a board; "missing" where there is nothing, empty where it holds."""
        kind, _, name = self.test.partition(":")
        if kind == "receiver":
            return self._answer(facts)[0]
        if kind != "module":
            return facts.needs.get(self.test, "")
        module = name.partition(".")[0]
        package = PAHO if module == "paho" else module.replace("_", "-")
        if package in facts.interpreters:
            return ""
        why = facts.failed.get(package)
        return late_imports.broken(why, facts.interpreters.get("numpy")) if why else "missing"

    def _answer(self, facts: Facts) -> tuple[str, str]:
        """Why a receiver does not answer the board, and what to do."""
        name, _, text = facts.needs.get(self.test, "").partition(": ")
        reason, cure = explain(name, text)
        return reason, cure or ("look there why" if reason else "")

    def cured(self, profile: Profile, facts: Facts | None = None, wants: Sequence[Need] = ()) -> str:
        """What to do on a board of that profile, as a sentence without its full stop; ``facts`` are None for a card.

        ``wants`` are all needs: one command collects the wheels of those that are missing.
        """
        if self.test.startswith("receiver:") and facts is not None:
            return self._answer(facts)[1]
        if not self.library:
            return self.cure
        board = facts.board if facts is not None else next(iter(profile.models), None)
        text = late_imports.cure(self.library, board)
        if not offered(self.library, profile.architecture, python_of(profile, facts)):
            return text
        wheels = wheels_command(profile, facts, wants or [self])
        return f"{text}; or collect wheels with it ({wheels}) and give them with --wheels"


class Collected(NamedTuple):
    """A wheel that needs no other but numpy: its package, the oldest Python, and whether 32-bit boards have one."""

    pin: str
    python: str
    bits_32: bool = True


# Of late_imports.LIBRARIES; Pythons are those of each wheel's Requires-Python, or of its tag.
COLLECTED = {
    "opencv": Collected("opencv-python-headless==5.0.0.93", "3.7", bits_32=False),
    "paho": Collected("paho-mqtt==2.1.0", "3.7"),
    "serial": Collected("pyserial==3.5", "3.6"),
    "kafka": Collected("kafka-python==3.0.12", "3.8"),
    "nats": Collected("nats-py==2.16.0", "3.7"),
    "oak": Collected("depthai==3.12.0", "3.9", bits_32=False),
}


def offered(library: str, architecture: str, python: str) -> bool:
    """Whether `board wheels` collects the library for a board."""
    one = COLLECTED.get(library)
    return one is not None and Version(python) >= Version(one.python) and (one.bits_32 or architecture != "armv7l")


def python_of(profile: Profile, facts: Facts | None) -> str:
    """The board's Python, as 3.11; that of the profile where the board is not known."""
    return ".".join((facts.python if facts is not None else profile.python).split(".")[:2])


def wheels_command(profile: Profile, facts: Facts | None, wants: Sequence[Need]) -> str:
    """The one command that collects the interpreter's wheels, and those of all ``wants`` that the board lacks."""
    python = python_of(profile, facts)
    lacking = [need for need in wants if need.library and (facts is None or need.state(facts))]
    more = {need.of.partition(":")[0] for need in lacking if offered(need.library, profile.architecture, python)}
    words = ["" if python == profile.python else f" --python {python}", *(f" --with {one}" for one in sorted(more))]
    return f"edgeveil board wheels {profile.name}{''.join(words)} --out wheels"


def of_wanted(wanted: Wanted, service: Service) -> list[Need]:
    """The needs of what is wanted. Raises ``Refused`` for a path that no unit can reach."""
    rows = [] if wanted.source is None else [*_source(wanted.source, wanted, service)]
    if wanted.service:
        rows += [need for sink in wanted.sinks for need in _sink(sink, service)]
    return list({need.test: need for need in rows}.values())


def receivers(wanted: Wanted) -> list[Need]:
    """Where the sinks of its service lead, which a check has the board reach; passwords and topics are not tried."""
    rows = []
    for sink in wanted.sinks if wanted.service else ():
        parts, forms = urlsplit(sink), " ".join(fact_of(SINKS, sink, "forms") or ())
        usual = re.search(rf"\b{re.escape(parts.scheme)}://HOST\[:(\d+)\]", forms)
        try:
            port = parts.port or (int(usual[1]) if usual else 0)
        except ValueError:
            continue  # no port; a flash says so
        if parts.hostname and port:
            # The scheme of TLS is that of the plain one with an s.
            tls = parts.scheme.endswith("s") and f"{parts.scheme[:-1]}://" in forms
            kind = "tls" if tls and not fact_of(SINKS, sink, "starttls") else "tcp"
            authority = dict(parse_qsl(parts.query)).get("ca", "")
            test = f"receiver:{parts.hostname} {port} {kind} {authority}"
            rows.append(Need("an answer", test, without_secrets(sink)))
    return rows


def libraries(registry: Registry, uri: str) -> Iterator[Need]:
    """The libraries that a source or sink needs."""
    needed = fact_of(registry, uri, "needs") or ()
    for name in needed if isinstance(needed, tuple) else ():  # another package's may be a text for people
        library = late_imports.library(name)
        yield Need(library.title.strip("`"), library.test, without_secrets(uri), name)


def tests(needs: list[Need]) -> list[str]:
    """What the board is asked."""
    return [need.test for need in needs]


def check_needs(needs: list[Need], facts: Facts, profile: Profile, brought: Mapping[str, str]) -> bool:
    """Whether the wheels are needed for them. ``brought``: packages of wheels that fit, with their versions.

    Raises ``Refused`` at the first need that neither the board nor the wheels meet.
    """
    used = False
    for need in needs:
        why = need.state(facts)
        if why and need.wheel in brought and need.wheel:
            used = True
        elif why:
            state = f"it is {why}" if why == "missing" else f"it is there, and {why}" if need.library else why
            cured = need.cured(profile, facts, needs)
            raise Refused("needs", f"{need.what} was expected on the board, for {need.of}; {state}. {cured}.")
    return used


def check_numpy(needs: list[Need], facts: Facts, profile: Profile, wheels: Wheels) -> None:
    """Check that libraries of the system that stay load with the numpy of the wheels. Raises ``Refused``."""
    brought, own = wheels.interpreters.get("numpy"), facts.interpreters.get("numpy")
    if brought is None or own is None or _major(brought) == _major(own):
        return
    for need in needs:
        if need.library == "opencv" and not need.state(facts) and need.wheel not in wheels.interpreters:
            raise Refused(
                "needs",
                f"The wheels bring numpy {brought}, and the board's own {need.what} was built for numpy {own}: it "
                f"would not load. Collect wheels with it: edgeveil board wheels {profile.name} --with "
                f"{need.of.partition(':')[0]} --out DIR.",
            )


def _major(version: str) -> int:
    try:
        return Version(version).major
    except InvalidVersion:
        return 0


def _source(source: str, wanted: Wanted, service: Service) -> Iterator[Need]:
    yield from libraries(SOURCES, source)
    shown, place = without_secrets(source), source.partition(":")[2]
    device = device_file(source)
    if device is not None:
        cure = f"Plug it in, or name one that is there: ls -l {posixpath.dirname(device)} /dev/v4l/by-path /dev/serial"
        yield Need(device, f"device:{device}", shown, cure=cure)
    elif fact_of(SOURCES, source, "listed") == "iio":
        name = place.partition(",")[0]
        yield Need(
            f"the device {name}",
            f"iio:{name}",
            shown,
            cure="Load its driver: cat /sys/bus/iio/devices/*/name lists them",
        )
    elif fact_of(SOURCES, source, "program"):
        program = place.split(" ")[0]
        yield Need(program, f"program:{program}", shown, cure="Put it there, root's: sudo install -m 755 PROGRAM THERE")
    elif fact_of(SOURCES, source, "file") and place != "-":
        user = service.inside_user if wanted.service else _TRIED_AS
        yield _file(place, user, service, shown, unit=wanted.service)


def _sink(sink: str, service: Service) -> Iterator[Need]:
    yield from libraries(SINKS, sink)
    shown, state = without_secrets(sink), named(_STATE, service.name)
    path, _, query = sink.partition(":")[2].partition("?")
    options = {name: unquote(value) for name, _, value in (one.partition("=") for one in query.split("&"))}
    for name in fact_of(SINKS, sink, "reads") or ():
        if name in options:
            yield _file(options[name], service.user, service, shown, unit=True)
    folders = [options[name] for name in fact_of(SINKS, sink, "writes") or () if name in options]
    folders += [path] if fact_of(SINKS, sink, "file") and path != "-" else []
    for folder in folders:
        place = posixpath.normpath("/" + folder.lstrip("/")) if folder.startswith("/") else folder
        if not place.startswith(state + "/"):
            raise Refused(
                "another-folder",
                f"The service {service.name} may write to {state} alone, and {shown} is in "
                f"{posixpath.dirname(place) or folder}: name a --sink there.",
            )
    parent = posixpath.dirname(posixpath.normpath(path))
    # A folder of pictures or of parts is made by its sink.
    alone = fact_of(SINKS, sink, "file") and fact_of(SINKS, sink, "part") != "" and "rotate" not in options
    if alone and path != "-" and parent != state:
        test = f"folder:{service.user}:{parent}"
        yield Need(parent, test, shown, cure=f"Make it: sudo install -d -o {service.user} {parent}, or name {state}")


def _file(path: str, user: str, service: Service, of: str, *, unit: bool) -> Need:
    if not posixpath.isabs(path):
        raise Refused("needs", f"A whole path on the board was expected in {of}, as /etc/edgeveil/x; got {path}.")
    if unit and path.startswith(_HIDDEN):
        raise Refused(
            "needs", f"{path} is where a unit cannot read, /home and /tmp among them: put it elsewhere, as into /etc."
        )
    group = service.user  # which all users of the service are in
    cure = f"Put it there, for {user} to read"
    if unit:
        cure += f": sudo chgrp {group} {path}; sudo chmod 640 {path} (before a first flash: sudo useradd -rU {group})"
    return Need(path, f"read:{user}:{path}", of, cure=cure)
