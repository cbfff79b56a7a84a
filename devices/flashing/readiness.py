"""What of a board fits its profile, what is missing, and the commands that cure it; a pure function of its facts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from packaging.version import Version

from edgeveil.devices.flashing import needs
from edgeveil.devices.flashing.placement import OLDEST_PYTHON, SPARE_BYTES, TRIAL_BYTES, fits_driver, within
from edgeveil.devices.flashing.records import LIBRARIES, Facts, Wanted
from edgeveil.devices.profiles import Backend, Install, Profile
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.kinds import SOURCES

OVERLAY_OFF = "sudo raspi-config nonint disable_overlayfs && sudo reboot"


@dataclass(frozen=True)
class Finding:
    """One line of the check. ``cure`` is a command or an instruction; None where nothing is missing."""

    what: str
    found: str
    cure: str | None = None


def findings(facts: Facts, profile: Profile, wants: Sequence[needs.Need] = ()) -> list[Finding]:
    """All findings, in the order in which a person would cure them. ``wants`` are the needs of source and sinks."""
    rows = [*_system(facts, profile), *_python(facts, profile, wants)]
    rows += [*_accelerator(facts, profile), *_rights(facts), *_needed(facts, profile, wants)]
    command, met = needs.wheels_command(profile, facts, wants), False
    for place, row in enumerate(rows):
        if row.cure and command in row.cure:
            rows[place] = replace(row, cure=row.cure.replace(command, "the same wheels")) if met else row
            met = True
    return rows


def wanted_needs(wanted: Wanted, profile: Profile) -> list[needs.Need]:
    """Of source, sinks and receivers; where no source is known, of the profile's cameras. Raises ``Refused``."""
    if wanted.source is not None or not profile.camera.sources:
        rows = needs.of_wanted(wanted, profile.service)
    else:
        rows = [need for source in profile.camera.sources for need in needs.libraries(SOURCES, source)]
    return [*rows, *needs.receivers(wanted)]


def _needed(facts: Facts, profile: Profile, wants: Sequence[needs.Need]) -> Iterator[Finding]:
    for need in wants:
        why = need.state(facts)
        yield Finding(f"{need.what} for {need.of}", why or "there", need.cured(profile, facts, wants) if why else None)


def _system(facts: Facts, profile: Profile) -> Iterator[Finding]:
    other = facts.architecture != profile.architecture
    yield Finding(
        "processor",
        facts.architecture,
        f"write a system for {profile.architecture}, or name another profile with --for" if other else None,
    )
    if facts.volatile:
        yield Finding("storage", f"in memory ({facts.volatile}), gone at the next boot", OVERLAY_OFF)
    elif facts.read_only:
        yield Finding("storage", "read-only", "sudo mount -o remount,rw /")
    else:
        free = facts.free_bytes // 2**20
        few = facts.free_bytes < 4 * SPARE_BYTES
        yield Finding("storage", f"{free} MiB free", "sudo apt-get clean, or a larger card" if few else None)
    for one in facts.space.values():
        if not one["same"] and one["free_bytes"] < TRIAL_BYTES:
            yield Finding(one["folder"], f"{one['free_bytes'] // 2**20} MiB free", "make room there")


def _python(facts: Facts, profile: Profile, wants: Sequence[needs.Need]) -> Iterator[Finding]:
    version = ".".join(facts.python.split(".")[:2])
    old = Version(version) < OLDEST_PYTHON
    yield Finding("Python", facts.python, "install Python 3.6 or later" if old else None)
    recipe = next((one for one in profile.install if one.python == version), None)
    wheels = _wheels(facts, profile, recipe, wants)
    if "numpy" in facts.interpreters:
        yield Finding("numpy", facts.interpreters["numpy"])
    else:
        apt = "sudo apt-get install python3-numpy"
        brings = recipe is not None and any(one.startswith("numpy==") for one in recipe.packages)
        why = facts.failed.get("numpy")
        yield Finding("numpy", f"does not load: {why}" if why else "none", wheels if brings else apt)
    usable = [backend for backend in profile.backends if _usable(facts, backend)]
    lines = [f"{name} {number}" for name, number in facts.interpreters.items() if name not in LIBRARIES]
    lines += [f"{name} does not load: {why}" for name, why in facts.failed.items() if name not in LIBRARIES]
    text = ", ".join(lines) or "none"
    yield Finding("interpreter", text, None if usable else wheels)


def _wheels(facts: Facts, profile: Profile, recipe: Install | None, wants: Sequence[needs.Need]) -> str:
    if recipe is None:
        version = needs.python_of(profile, facts)
        known = ", ".join(one.python for one in profile.install) or "none"
        cure = "use that system, or --with of edgeveil board wheels"
        return f"no recipe for Python {version} (there is one for {known}): {cure}"
    if recipe.unavailable:
        return recipe.unavailable
    if not recipe.packages:
        return f"sudo apt-get install {' '.join(recipe.system)}"
    return needs.wheels_command(profile, facts, wants) + ", then edgeveil flash ... --wheels wheels"


def _accelerator(facts: Facts, profile: Profile) -> Iterator[Finding]:
    if profile.accelerator_path is None:
        return
    best = next((backend for backend in profile.backends if backend.accelerator), None)
    name = best.accelerator if best is not None and best.accelerator else "accelerator"
    if not facts.accelerator:
        powered = " (a hub needs its own power)" if profile.accelerator_path.startswith("usb:") else ""
        yield Finding(name, "not there", f"plug it in{powered}, or go on with the processor")
        return
    yield Finding(name, "there")
    pairs = [backend for backend in profile.backends if backend.accelerator and _usable(facts, backend)]
    speaks = best is not None and best.device in facts.devices
    vendor = [part for install in profile.install for part in install.vendor]
    drivers = ", ".join(f"{package} {number}" for package, number in facts.drivers.items())
    library = drivers or ", ".join(facts.devices) or "nothing that can ask for it"
    cure = None if pairs and speaks else f"install {vendor[0]}" if vendor else "install its vendor's library"
    yield Finding(f"library of the {name}", library, cure)


def _usable(facts: Facts, backend: Backend) -> bool:
    version = facts.interpreters.get(backend.name)
    return version is not None and within(version, backend.versions) and fits_driver(facts, backend)


def _rights(facts: Facts) -> Iterator[Finding]:
    cure = None if facts.sudo else "give the password by password_file in boards.toml, or log in as a user who may sudo"
    yield Finding("sudo", "yes" if facts.sudo else "not without a password", cure)
    yield Finding("systemd", "runs" if facts.systemd else "none", None if facts.systemd else "flash with --no-service")


def matching(facts: Facts, known: Mapping[str, Profile], present: Callable[[str], bool]) -> Profile:
    """The one profile of ``known`` that the board is. ``present(path)``: whether that accelerator is there.

    Raises ``BadInput`` where none matches, or several do: then the user says which.
    """
    model = facts.board or "a board that does not say its model"
    fits = [
        profile
        for profile in known.values()
        if profile.architecture == facts.architecture
        and any(fnmatchcase(facts.board or "", pattern) for pattern in profile.models)
    ]
    if not fits:
        raise BadInput(
            f"A board of a shipped profile was expected; this is {model} ({facts.architecture}), and none is for it. "
            "Name the nearest with --for (edgeveil board list), or write your own (docs/reference/boards.md)."
        )
    accelerated = [p for p in fits if p.accelerator_path is not None and present(p.accelerator_path)]
    left = accelerated or [p for p in fits if p.accelerator_path is None] or fits
    if len({profile.accelerator_path for profile in left}) == 1:
        # Two accelerators under one name, as the Hailos are: the library that is there says which.
        supported = [one for one in left if {backend.device for backend in one.backends} & set(facts.devices)]
        left = supported or left
    if len(left) > 1:
        names = " and ".join(profile.name for profile in left)
        raise BadInput(f"This is {model}, which {names} are for. Name one with --for.")
    return left[0]
