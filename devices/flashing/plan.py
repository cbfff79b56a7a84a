"""From facts to steps: a pure function. Whatever would fail half-way is refused here, before anything is changed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgeveil.devices.flashing.records import BundleFacts, Facts, Installed, Site, TrustFacts, Wanted
from edgeveil.devices.profiles import Backend, Profile
from edgeveil.edge_runtime.device import CPU, EDGETPU
from edgeveil.edge_runtime.errors import BadInput

SPARE_BYTES = 16 * 2**20  # what must stay free: logs, a state file, somebody's peace of mind
OLDEST_PYTHON = (3, 6)
_STARTED = {
    "sysvinit": "started at boot by init",
    "rcS": "started at boot by rcS",
    "cron": "started at boot by cron",
    None: "started now",
}
_PARTS = re.compile(r"(==|<=|>=|<|>)([\d.]+)")


class Refused(BadInput):
    """This bundle does not go onto this board. ``reason`` is a short fixed word for the rule."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Step:
    """One step of a plan. ``kind`` is what an executor does, ``text`` what a person reads."""

    kind: str
    text: str
    size: int = 0


@dataclass(frozen=True)
class Plan:
    """What will be done, and on what the bundle will run there. Without steps there is nothing to do."""

    steps: tuple[Step, ...]
    artefact: str
    backend: str
    notes: tuple[str, ...] = ()
    device: str = CPU

    @property
    def size(self) -> int:
        """Bytes that travel."""
        return sum(step.size for step in self.steps)

    def text(self) -> str:
        """The plan for people."""
        lines = [f"{number}. {step.text}" for number, step in enumerate(self.steps, 1)]
        return "\n".join([*(lines or ["Nothing to do."]), *(f"note: {note}" for note in self.notes)])


def plan(
    facts: Facts,
    bundle: BundleFacts,
    profile: Profile,
    wanted: Wanted | None = None,
    *,
    trust: TrustFacts | None = None,
    site: Site | None = None,
) -> Plan:
    """The steps that put ``bundle`` onto the board, or ``Refused``.

    ``trust`` is the owner's trust folder: only a first flash takes it to the board. ``site`` are wheels that could
    travel. Raises ``Refused`` with one sentence that says what was expected, what came and what to do.
    """
    wanted = wanted or Wanted()
    _fits_the_board(facts, profile)
    notes = []
    there = facts.edgeveil
    first = there is None or there.root_key is None
    trusted = _trust_of(there, trust, wanted, first)
    _is_trusted(bundle, trusted)
    artefact, backend, needs_site = _what_runs(facts, bundle, profile, site)
    artefact, device, note = _on_what(facts, bundle, artefact, backend, wanted)
    notes += [note] if note else []
    steps = []
    if first:
        steps.append(
            Step(
                "trust", f"put the root key {trusted.root_key[:16]}... and version {trusted.version} of its trust there"
            )
        )
    if needs_site and site is not None and not (there and site.name in there.sites):
        steps.append(Step("site", f"put {', '.join(site.interpreters)} there, as {site.name}", site.size))
    if there is None or there.committed != bundle.sha:
        steps.append(Step("upload", f"send {bundle.name} ({bundle.size} bytes), and read it back", bundle.size))
        frames = f"{wanted.frames} frames of {wanted.source}" if wanted.source else f"{wanted.frames} synthetic frames"
        steps.append(
            Step(
                "install",
                f"have it verified there, switch to it, test {artefact} on {device} and run {frames}; back if that "
                "fails",
            )
        )
    if wanted.service and (steps or not _serves(there, wanted)):
        steps += _service(facts)
        if not facts.systemd and facts.starter is None:
            notes.append("this board has no systemd: have its own init run edgeveil-edge run at boot")
    _fits_the_disk(facts, sum(step.size for step in steps))
    return Plan(tuple(steps), artefact, backend.name if artefact != "numpy" else "numpy", tuple(notes), device)


def _fits_the_board(facts: Facts, profile: Profile) -> None:
    if facts.architecture != profile.architecture:
        raise Refused(
            "architecture",
            f"The profile {profile.name} is for {profile.architecture}; this board is {facts.architecture}. "
            "Name the profile of this board (edgeveil devices list).",
        )
    if _version(facts.python)[:2] < OLDEST_PYTHON:
        raise Refused("python", f"Python 3.6 or later was expected on the board; it has {facts.python}. Install one.")
    if facts.read_only:
        raise Refused("read-only", "The board's file system is read-only where EdgeVeil would lie. Make it writable.")


def _trust_of(there: Installed | None, trust: TrustFacts | None, wanted: Wanted, first: bool) -> TrustFacts:
    if not first and there is not None:
        if trust is not None and trust.root_key != there.root_key:
            raise Refused(
                "other-root",
                f"This board's root key is {str(there.root_key)[:16]}..., that of --trust is {trust.root_key[:16]}.... "
                "A flash never changes it: name the right folder, or make the board anew from an image.",
            )
        return TrustFacts(
            str(there.root_key), there.trust_version, there.keys, there.revoked, there.floor, there.audience
        )
    if trust is None:
        raise Refused(
            "no-trust",
            "This board was never flashed and knows no keys. Give the folder of edgeveil trust init with --trust.",
        )
    if not wanted.trusted_channel:
        raise Refused(
            "untrusted-channel",
            "The first flash puts the root key there, and nobody knows who is at the other end of this channel. "
            "Use SSH with a known host key, the board's own console or an SD image.",
        )
    return trust


def _is_trusted(bundle: BundleFacts, trust: TrustFacts) -> None:
    if bundle.key in trust.revoked:
        raise Refused("revoked-key", f"The bundle is signed by {bundle.key[:16]}..., which was revoked. Seal it again.")
    if bundle.key not in trust.keys:
        raise Refused(
            "untrusted-key",
            f"The bundle is signed by {bundle.key[:16]}..., which this board does not know. If it may sign, "
            "edgeveil trust add it and send the board the new trust file.",
        )
    if bundle.audience not in ("", trust.audience):
        raise Refused(
            "other-audience",
            f"The bundle is made out to {bundle.audience!r}; this board is {trust.audience or 'nobody'!r}.",
        )
    if bundle.security_version < trust.security_version:
        raise Refused(
            "rolled-back",
            f"The bundle has security version {bundle.security_version}; this board takes {trust.security_version} or "
            "later. Use a newer bundle.",
        )


def _what_runs(facts: Facts, bundle: BundleFacts, profile: Profile, site: Site | None) -> tuple[str, Backend, bool]:
    """The artefact that will run, its backend, and whether the wheels are needed for that."""
    numpy_there, travels = "numpy" in facts.interpreters, _usable(site, facts)
    if not numpy_there and not (travels and site is not None and "numpy" in site.interpreters):
        raise Refused(
            "no-numpy",
            f"numpy was expected on the board for Python {facts.python}; there is none. Install python3-numpy "
            f"there, or collect wheels (edgeveil wheels {profile.name} --out DIR) and give them with --wheels.",
        )
    if not bundle.artefacts:
        return "numpy", profile.backends[0], not numpy_there
    possible = [name for name in profile.artefacts if name in bundle.artefacts]
    if not possible:
        raise Refused(
            "no-artefact",
            f"The profile {profile.name} runs {', '.join(profile.artefacts)}; the bundle has "
            f"{', '.join(bundle.artefacts)}. Export the run with --for {profile.name} and seal it again.",
        )
    for there, interpreters in ((True, facts.interpreters), (False, site.interpreters if travels and site else {})):
        for artefact in possible:
            for backend in profile.backends:
                version = interpreters.get(backend.name)
                if artefact in backend.artefacts and version is not None and _within(version, backend.versions):
                    return artefact, backend, not there or not numpy_there
    raise Refused("no-interpreter", _no_interpreter(facts, profile, possible, site, travels))


def keeps_settings(facts: Facts, wanted: Wanted) -> bool:
    """Whether a board in use keeps the settings of its service: none others were asked for."""
    return bool(wanted.service and facts.edgeveil and facts.edgeveil.service) and not (wanted.source or wanted.sinks)


def _on_what(
    facts: Facts, bundle: BundleFacts, artefact: str, backend: Backend, wanted: Wanted
) -> tuple[str, str, str | None]:
    """The artefact, what runs it, and what is to be said of that: the accelerator where all of it is there."""
    compiled, name = f"{artefact}-{EDGETPU}", backend.accelerator
    if keeps_settings(facts, wanted):
        if wanted.device is not None:
            raise Refused(
                "settings-kept",
                "--device goes into the settings of the board's service, which are kept as they are without --source "
                "and --sink: give these too.",
            )
        there = facts.edgeveil.device if facts.edgeveil else None
        if there == "":
            raise Refused(
                "settings-unread",
                "The settings of the board's service say what runs the model, and cannot be read: log in as one who "
                "may sudo without a password, or give --source and --sink for new ones.",
            )
        asked: str | None = there or CPU
    else:
        asked = wanted.device
    if asked is not None:
        if asked != CPU and facts.accelerator is False:
            raise Refused(
                "no-accelerator",
                f"The device {asked} was asked for, and no {name or 'accelerator'} is there. Plug it in, or "
                "choose --device cpu.",
            )
        if asked == EDGETPU and compiled not in bundle.artefacts:
            raise Refused(
                "not-compiled",
                f"The Edge TPU runs {compiled}, and the bundle has {', '.join(bundle.artefacts) or 'no artefacts'}. "
                "Export with edgetpu_compiler on PATH and seal it again, or choose --device cpu.",
            )
        return (compiled if asked == EDGETPU else artefact), asked, None
    if artefact == "numpy" or not name:
        return artefact, CPU, None
    if facts.accelerator is False:
        return artefact, CPU, f"no {name} is there: {backend.name} runs {artefact} on the processor"
    if not facts.accelerator or backend.device is None:
        return artefact, CPU, None
    if backend.device not in facts.devices:
        return artefact, CPU, f"the {name} is not used: what is installed there cannot ask for {backend.device}"
    if backend.device == EDGETPU and compiled not in bundle.artefacts:
        return artefact, CPU, f"the {name} is not used: the bundle has nothing that was compiled for it ({compiled})"
    return (compiled if backend.device == EDGETPU else artefact), backend.device, None


def _no_interpreter(facts: Facts, profile: Profile, possible: list[str], site: Site | None, travels: bool) -> str:
    wanted = [f"{b.name} {b.versions}" for b in profile.backends if set(b.artefacts) & set(possible)]
    there = [f"{name} {version}" for name, version in facts.interpreters.items() if name != "numpy"]
    came = f"there is {', '.join(there)}" if there else "there is none"
    if site is not None and not travels:
        came += f", and the wheels given are for {site.architecture} and Python {site.python}, not for " + (
            f"{facts.architecture} and {facts.python}"
        )
    return (
        f"An interpreter was expected on the board ({' or '.join(wanted)}); {came}. Collect its wheels with "
        f"edgeveil wheels {profile.name} --out DIR and give them with --wheels DIR."
    )


def _usable(site: Site | None, facts: Facts) -> bool:
    if site is None or site.architecture != facts.architecture:
        return False
    if _version(site.python)[:2] != _version(facts.python)[:2]:
        return False
    if site.glibc and facts.glibc and _version(facts.glibc) < _version(site.glibc):
        raise Refused(
            "glibc",
            f"The wheels given need glibc {site.glibc} or later; the board has {facts.glibc}. Collect "
            "older ones, or renew its system.",
        )
    return True


def _serves(there: Installed | None, wanted: Wanted) -> bool:
    """Whether the wanted service is there as it should be, and up."""
    if there is None or not there.service or not there.service_active:
        return False
    return all(there.service_files.get(path) == sha for path, sha in wanted.service_files.items())


def _service(facts: Facts) -> list[Step]:
    if not facts.sudo:
        raise Refused(
            "no-root",
            "Installing the service needs root on the board, and this user may not sudo without a password. "
            "Log in as one who may, or leave the service out with --no-service.",
        )
    what = "the systemd units" if facts.systemd else f"an init script ({_STARTED[facts.starter]})"
    return [Step("service", f"install and start {what}, inside and outside under users of their own")]


def _fits_the_disk(facts: Facts, size: int) -> None:
    # The bundle lies there twice for a moment: as it came, and as a release with its runtime beside it.
    needed = 3 * size + SPARE_BYTES
    if size and facts.free_bytes < needed:
        raise Refused(
            "no-space",
            f"{needed // 2**20 + 1} MiB free were expected on the board; there are {facts.free_bytes // 2**20}. "
            "Remove old releases there (edgeveil releases --keep 1), or make room.",
        )


def _within(version: str, limits: str) -> bool:
    """Whether a version keeps to limits such as ``>=2022.3.1,<2023``; one that cannot be read does not."""
    found = _version(version)
    if not found:
        return False
    for sign, limit in _PARTS.findall(limits):
        bound = _version(limit)
        # "<=2.11" is meant to take 2.11.1 along.
        cut = found[: len(bound)]
        if not {"==": cut == bound, "<=": cut <= bound, ">=": found >= bound, "<": found < bound, ">": cut > bound}[
            sign
        ]:
            return False
    return True


def _version(text: str) -> tuple[int, ...]:
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match.group().split(".")) if match else ()
