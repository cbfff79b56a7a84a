"""Which artefact of a bundle runs on a board, by which interpreter and on which device."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NoReturn

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from edgeveil.devices.flashing import needs
from edgeveil.devices.flashing.records import LIBRARIES, BundleFacts, Facts, Refused, Wanted, Wheels
from edgeveil.devices.profiles import Backend, Profile
from edgeveil.edge_runtime.device import CPU, forms
from edgeveil.edge_runtime.manifest.schema import NO_MODEL

SPARE_BYTES = 16 * 2**20  # what must stay free: logs, a state file
TRIAL_BYTES = 2 * 2**20  # of temporary files: a trial's outputs; as much stays free next to uploads
STOCK = "16.0"  # Google's libedgetpu, its last
OLDEST_PYTHON = Version("3.6")
_UNREADABLE = Version("0")


@dataclass(frozen=True)
class Placement:
    """What will run there. ``news``: whether the installed runtime must be given the device."""

    artefact: str
    backend: str
    device: str = CPU
    needs_wheels: bool = False
    news: bool = False
    note: str | None = None


def place(
    facts: Facts, bundle: BundleFacts, profile: Profile, wanted: Wanted, wheels: Wheels | None, *, settings_kept: bool
) -> Placement:
    """The best artefact of the bundle on this board, on its accelerator if everything for it is there."""
    if _version(facts.python) < OLDEST_PYTHON:
        raise Refused("python", f"Python 3.6 or later was expected on the board; it has {facts.python}. Install one.")
    wants = needs.of_wanted(wanted, profile.service)
    artefact, backend, needs_wheels = _interpreter(facts, bundle, profile, wheels, wants)
    brought = wheels.interpreters if wheels is not None and _fit(wheels, facts) else {}
    if needs.check_needs(wants, facts, profile, brought) and not needs_wheels:
        needs_wheels = True
        replaced = facts.edgeveil is not None and bool(facts.edgeveil.wheels)
        if replaced and bundle.artefacts and backend.name not in brought:
            more = " ".join(sorted({f"--with {need.of.partition(':')[0]}" for need in wants if need.wheel}))
            raise Refused(
                "needs",
                f"{backend.name} was expected in the wheels too, which replace the board's earlier wheels. Collect "
                f"all: edgeveil board wheels {profile.name} {more} --out wheels.",
            )
    if needs_wheels and wheels is not None:
        needs.check_numpy(wants, facts, profile, wheels)
    before = facts.edgeveil.device if facts.edgeveil else None
    chosen = _settings_device(before, wanted) if settings_kept else wanted.device
    if chosen is None:
        artefact, device, note = _accelerated(facts, bundle, profile, artefact, backend)
        note = note or _left_out(facts, bundle, profile, backend)
    else:
        if chosen != CPU and facts.accelerator is False:
            raise Refused(
                "no-accelerator",
                f"The device {chosen} was asked for, and no {backend.accelerator or 'accelerator'} is there. Plug it "
                "in, or choose --device cpu.",
            )
        artefact, device, note = compiled_artefact(bundle, profile, artefact, backend, chosen), chosen, None
    # Older runtimes do not know the option: it is given only where the device changes.
    news = not settings_kept and (device != CPU or before not in (None, CPU))
    return Placement(artefact, NO_MODEL if artefact == NO_MODEL else backend.name, device, needs_wheels, news, note)


def _interpreter(
    facts: Facts, bundle: BundleFacts, profile: Profile, wheels: Wheels | None, wants: list[needs.Need]
) -> tuple[str, Backend, bool]:
    """The artefact, the backend that runs it, and whether that needs the wheels."""
    brought: Mapping[str, str] = wheels.interpreters if wheels is not None and _fit(wheels, facts) else {}
    collect = needs.wheels_command(profile, facts, wants)
    numpy_there = "numpy" in facts.interpreters
    if not numpy_there and "numpy" not in brought:
        why = f"it does not load ({facts.failed['numpy']})" if "numpy" in facts.failed else "there is none"
        raise Refused(
            "no-numpy",
            f"numpy was expected on the board for Python {facts.python}; {why}. Install python3-numpy "
            f"there, or collect wheels ({collect}) and give them with --wheels.",
        )
    if not bundle.artefacts:
        return NO_MODEL, profile.backends[0], not numpy_there
    possible = possible_artefacts(bundle, profile)
    for installed, interpreters in ((True, facts.interpreters), (False, brought)):
        for artefact in possible:
            for backend in profile.backends:
                version = interpreters.get(backend.name)
                if artefact not in backend.artefacts or version is None or not within(version, backend.versions):
                    continue
                if not _has_what_it_runs(facts, bundle, artefact, backend):
                    continue
                if fits_driver(facts, backend):
                    return artefact, backend, not installed or not numpy_there
    _refuse_interpreters(facts, profile, possible, wheels, collect)


def _has_what_it_runs(facts: Facts, bundle: BundleFacts, artefact: str, backend: Backend) -> bool:
    """Whether an interpreter of compiled files alone has its accelerator and a file for it."""
    form = forms().get(backend.device or "")
    if form is None or form.made[0] == form.source[0]:
        return True
    usable = bool(facts.accelerator) and backend.device in facts.devices
    return usable and f"{artefact}-{backend.device}" in bundle.artefacts


def fits_driver(facts: Facts, backend: Backend) -> bool:
    """Whether the accelerator's library there is one of those that were built for this interpreter.

    One that no package brought has no version: it is taken for the vendor's own, the first of the first pair.
    """
    versions = list(facts.drivers.values()) or [STOCK] * bool(backend.driver)
    return not backend.driver or any(fnmatchcase(one, pattern) for one in versions for pattern in backend.driver)


def possible_artefacts(bundle: BundleFacts, profile: Profile) -> list[str]:
    """The artefacts of the bundle that the board can run, best first; ``Refused`` without any."""
    possible = [name for name in profile.artefacts if name in bundle.artefacts]
    if not possible:
        raise Refused(
            "no-artefact",
            f"The profile {profile.name} runs {', '.join(profile.artefacts)}; the bundle has "
            f"{', '.join(bundle.artefacts)}. Export the run with --for {profile.name} and seal it again.",
        )
    return possible


def _settings_device(before: str | None, wanted: Wanted) -> str:
    """The device in the settings of the board's service, which are kept."""
    if wanted.device is not None:
        raise Refused(
            "settings-kept",
            "--device goes into the settings of the board's service, which are kept as they are without --source "
            "and --sink: give these too.",
        )
    if before == "":
        raise Refused(
            "settings-unread",
            "The settings of the board's service say what runs the model, and cannot be read: log in as a user who "
            "can sudo, with password_file in boards.toml where sudo asks; or give --source and --sink for new ones.",
        )
    return before or CPU


def _accelerated(
    facts: Facts, bundle: BundleFacts, profile: Profile, artefact: str, backend: Backend
) -> tuple[str, str, str | None]:
    """The artefact and the accelerator if everything for it is there; else the processor, with the reason as a note."""
    name = backend.accelerator
    if artefact == NO_MODEL or not name:
        return artefact, CPU, None
    if facts.accelerator is False:
        return artefact, CPU, f"no {name} is there: {backend.name} runs {artefact} on the processor"
    if not facts.accelerator or backend.device is None:
        return artefact, CPU, None
    if backend.device not in facts.devices:
        return artefact, CPU, f"the {name} is not used: what is installed there cannot ask for {backend.device}"
    if profile.compiler is None:
        return artefact, backend.device, None
    compiled = f"{artefact}-{backend.device}"
    if compiled not in bundle.artefacts:
        return artefact, CPU, f"the {name} is not used: the bundle has nothing that was compiled for it ({compiled})"
    return compiled, backend.device, None


def _left_out(facts: Facts, bundle: BundleFacts, profile: Profile, chosen: Backend) -> str | None:
    """Why the interpreter of the accelerator that is there was not chosen; None where no one could expect it."""
    best = next((backend for backend in profile.backends if backend.accelerator), None)
    if best is None or best.name == chosen.name or not facts.accelerator:
        return None
    if best.name in facts.failed:
        why = f"{best.name} does not load there ({facts.failed[best.name]})"
    elif best.device in facts.devices and not _has_what_it_runs(facts, bundle, best.artefacts[0], best):
        why = f"the bundle has nothing that was compiled for it ({best.artefacts[0]}-{best.device})"
    else:
        version = facts.interpreters.get(best.name, "not there")
        why = f"{best.name} {best.versions} was expected, and is {version}"
    return f"the {best.accelerator} is not used: {why}"


def compiled_artefact(
    bundle: BundleFacts, profile: Profile, artefact: str, backend: Backend | None, device: str
) -> str:
    """The artefact that ``device`` runs: the one compiled for it if the profile's accelerator takes no other."""
    compiled = f"{artefact}-{device}"
    if compiled in bundle.artefacts:
        return compiled
    if profile.compiler is not None and backend is not None and device == backend.device:
        raise Refused(
            "not-compiled",
            f"The {backend.accelerator or device} runs {compiled}, and the bundle has "
            f"{', '.join(bundle.artefacts) or 'no artefacts'}. Export with {forms()[device].compiler} and seal it "
            "again, or choose --device cpu.",
        )
    return artefact


def _refuse_interpreters(
    facts: Facts, profile: Profile, possible: list[str], wheels: Wheels | None, collect: str
) -> NoReturn:
    wanted = [
        f"{b.name} {b.versions}" + (f" with libedgetpu {' or '.join(b.driver)}" if b.driver else "")
        for b in profile.backends
        if set(b.artefacts) & set(possible)
    ]
    installed = [f"{name} {version}" for name, version in facts.interpreters.items() if name not in LIBRARIES]
    installed += [f"{name} that does not load ({why})" for name, why in facts.failed.items() if name not in LIBRARIES]
    installed += [f"{name} {version}" for name, version in facts.drivers.items()]
    came = f"there is {', '.join(installed)}" if installed else "there is none"
    if wheels is not None and not _fit(wheels, facts):
        came += f", and the wheels given are for {wheels.architecture} and Python {wheels.python}, not for " + (
            f"{facts.architecture} and {facts.python}"
        )
    version = needs.python_of(profile, facts)
    unavailable = next((one.unavailable for one in profile.install if one.python == version), None)
    cure = f"Collect its wheels with {collect} and give them with --wheels wheels"
    cure = f"{unavailable[:1].upper()}{unavailable[1:]}" if unavailable else cure
    raise Refused(
        "no-interpreter", f"An interpreter was expected on the board ({' or '.join(wanted)}); {came}. {cure}."
    )


def _fit(wheels: Wheels, facts: Facts) -> bool:
    """Whether the wheels are for this processor and Python; ``Refused`` where only the board's glibc is too old."""
    if wheels.architecture != facts.architecture:
        return False
    if _version(wheels.python).release[:2] != _version(facts.python).release[:2]:
        return False
    if wheels.glibc and facts.glibc and _version(facts.glibc) < _version(wheels.glibc):
        raise Refused(
            "glibc",
            f"The wheels given need glibc {wheels.glibc} or later; the board has {facts.glibc}. Collect "
            "older ones, or upgrade its system.",
        )
    return True


def within(version: str, limits: str) -> bool:
    """Whether an installed version is within ``limits`` (``>=2022.3.1,<2023``); an unreadable version is not."""
    parsed = _version(version)
    return parsed != _UNREADABLE and SpecifierSet(limits).contains(parsed, prereleases=True)


def _version(text: str) -> Version:
    """The release part of a version, without what vendors add (``2.5.0.post1``, ``2022.3.1-9227``)."""
    match = re.match(r"\d+(\.\d+)*", text)
    return Version(match.group()) if match else _UNREADABLE
