"""Wheels for boards with an old pip or no network: collected, unpacked and hashed on the workstation."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from edgeveil.devices import profiles
from edgeveil.devices.flashing import needs
from edgeveil.devices.flashing.records import BundleFacts, TrustFacts, Wheels
from edgeveil.devices.profiles import Install, Profile
from edgeveil.devices.transports.base import digest
from edgeveil.devices.zipapp import zipapp_bytes
from edgeveil.edge_runtime import late_imports
from edgeveil.edge_runtime.bundle.policy import POLICY_FILE, Policy, leaks, open_policy
from edgeveil.edge_runtime.bundle.reader import Bundle, read_bundle, read_file
from edgeveil.edge_runtime.bundle.trust_file import read_trust_file
from edgeveil.edge_runtime.bundle.trust_store import ROOT_KEY, SIGNED_POLICY_FILE, TRUST_FILE, open_trust, read_part
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed, reason
from edgeveil.edge_runtime.kinds import SINKS, SOURCES
from edgeveil.edge_runtime.manifest import stream_bound
from edgeveil.edge_runtime.signing.keys import read_public_key
from edgeveil.edge_runtime.util.atomic import write_atomic

SITE_FILE, ARCHIVE = "site.json", "site.zip"
HASHES = profiles.FOLDER / "wheels.txt"  # of every package in a recipe, and of needs.COLLECTED
_PINNED = re.compile(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+")
_PLATFORMS = {
    "aarch64": ("manylinux_2_{}_aarch64", "manylinux2014_aarch64", "linux_aarch64"),
    "armv7l": ("manylinux_2_{}_armv7l", "manylinux2014_armv7l", "linux_armv7l"),
    "x86_64": ("manylinux_2_{}_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64", "linux_x86_64"),
}


def collect(
    profile: Profile,
    out: Path,
    requirements: Sequence[str] = (),
    *,
    python: str | None = None,
    served: Sequence[str] = (),
    find_links: Path | None = None,
    pins: Sequence[str] = (),
) -> Wheels:
    """Get wheels for the profile's board into the folder ``out``: those of its recipe, or of ``requirements``.

    ``served`` are sources and sinks, or their kinds: what they need comes along (``needs.COLLECTED``).

    pip chooses them for the board's processor, C library and Python (``python`` names another one of the profile's).
    Dependencies are not followed: name every package that is needed. Only wheels of a known SHA-256 are taken: those of
    the profiles' recipes stand in ``HASHES``, and ``pins`` are those of any other package. ``find_links`` is a folder
    of wheels that only a vendor offers. Writes ``site.zip``, all of them unpacked, and ``site.json`` with each wheel's
    hash. Raises ``BadInput`` for a missing wheel, one of an unknown hash, or one that differs from its hash.
    """
    recipe = profile.recipe(python) if not requirements else Install(python=python or profile.python)
    requirements = [*(requirements or recipe.packages), *_needed(served, profile, recipe.python)]
    if not requirements:
        raise BadInput(
            f"The recipe of {profile.name} for Python {recipe.python} has no wheels: install what the board's own "
            f"system brings ({', '.join(recipe.system)}), or name a package with --with."
        )
    if out.exists() and any(out.iterdir()):
        raise BadInput(f"{out} exists and is not empty. Name a new folder.")
    with tempfile.TemporaryDirectory() as folder:
        known, given = _known_hashes(), [f"sha256:{pin.lower()}" for pin in pins]
        # Each requirement with the hashes that its wheel may have, as pip's requirement files spell them.
        hashed = {requirement: known.get(requirement.lower(), []) + given for requirement in requirements}
        _download(profile, recipe, Path(folder), hashed, find_links)
        wheels = sorted(Path(folder).glob("*.whl"))
        if find_links is not None:
            _check_pins(wheels, pins)
        archive = _pack(wheels, Path(folder) / ARCHIVE)
        out.mkdir(parents=True, exist_ok=True)
        document = {
            "schema": 1,
            "name": f"site-{digest(archive)[:16]}",
            "architecture": profile.architecture,
            "python": recipe.python,
            "glibc": _oldest_glibc(wheels),
            "interpreters": _versions(wheels),
            "sha256": digest(archive),
            "wheels": {wheel.name: digest(wheel.read_bytes()) for wheel in wheels},
        }
        write_atomic(str(out / ARCHIVE), archive)
        write_atomic(str(out / SITE_FILE), (json.dumps(document, indent=1, sort_keys=True) + "\n").encode())
    return open_wheels(out)


def _needed(served: Sequence[str], profile: Profile, python: str) -> list[str]:
    """The packages that sources and sinks need on a board. Raises ``BadInput`` for what is neither or has none."""
    pins = []
    for word in served:
        kind = word.partition(":")[0]
        libraries = [one for registry in (SOURCES, SINKS) for one in needs.libraries(registry, kind)]
        known = [one.library for one in libraries if needs.offered(one.library, profile.architecture, python)]
        pins += [needs.COLLECTED[one].pin for one in known]
        if known:
            continue
        if libraries:
            cure = late_imports.cure(libraries[0].library, next(iter(profile.models), None))
            raise BadInput(
                f"{word} needs {libraries[0].what}, of which no wheel can be collected for {profile.name} with Python "
                f"{python}. On the board: {cure}."
            )
        kinds = {
            kind
            for registry in (SOURCES, SINKS)
            for kind in registry.kinds()
            if any(one.library in needs.COLLECTED for one in needs.libraries(registry, kind))
        }
        raise BadInput(
            "A package with its version was expected, or a source or sink that needs one "
            f"({', '.join(sorted(kinds))}); got {word}. Leave it out."
        )
    return list(dict.fromkeys(pins))


def open_wheels(folder: Path) -> Wheels:
    """The result of ``collect``, with its archive. Raises ``BadInput`` if the two files do not match."""
    try:
        document = json.loads((folder / SITE_FILE).read_text())
        archive = (folder / ARCHIVE).read_bytes()
        names = ("name", "architecture", "python", "interpreters", "glibc")
        wheels = Wheels(size=len(archive), archive=archive, **{name: document[name] for name in names})
        whole = document["sha256"] == digest(archive)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"Expected wheels of `edgeveil board wheels` in {folder}: {reason(error)}. Collect them first."
        ) from None
    if not whole:
        raise BadInput(f"{folder / ARCHIVE} is not what {SITE_FILE} says. Collect the wheels again.")
    return wheels


def _known_hashes() -> dict[str, list[str]]:
    known: dict[str, list[str]] = {}
    for line in HASHES.read_text().replace("\\\n", " ").splitlines():
        name, *hashes = line.replace("--hash=", "").split()
        if name != "#":
            known[name] = hashes
    return known


def _check_pins(wheels: list[Path], pins: Sequence[str]) -> None:
    """A wheel that is not from an index needs its SHA-256, which the user compares with the vendor's."""
    for wheel in wheels:
        sha256 = digest(wheel.read_bytes())
        if sha256 not in {pin.lower() for pin in pins}:
            raise BadInput(
                f"{wheel.name} has the SHA-256 {sha256}: compare that with its vendor's, then give --pin {sha256}."
            )


def _download(
    profile: Profile, recipe: Install, folder: Path, requirements: dict[str, list[str]], find_links: Path | None
) -> None:
    if find_links is None:
        _refuse_unknown(requirements)
    newest = int(recipe.glibc.split(".")[1]) if recipe.glibc else _newest_glibc(profile.system)
    platforms = []
    for pattern in _PLATFORMS[profile.architecture]:
        minors = range(newest, 4, -1) if "{}" in pattern else [0]
        platforms += [pattern.format(minor) for minor in minors]
    tag = "cp" + recipe.python.replace(".", "")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--dest", str(folder)]
    command += ["--only-binary=:all:", "--no-deps", "--implementation", "cp", "--python-version", recipe.python]
    for abi in (tag, tag + "m", "abi3", "none"):
        command += ["--abi", abi]
    for platform in platforms:
        command += ["--platform", platform]
    if find_links is not None:
        command += ["--no-index", "--find-links", str(find_links), *requirements]
    else:
        lines = [" ".join([name, *(f"--hash={one}" for one in hashes)]) for name, hashes in requirements.items()]
        (folder / "requirements.txt").write_text("\n".join(lines) + "\n")
        command += ["--require-hashes", "--requirement", str(folder / "requirements.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - pip, and words of ours
    if "DO NOT MATCH THE HASHES" in done.stderr:
        raise BadInput(
            f"The package index gave a wheel of another SHA-256 than is known for {', '.join(requirements)}. Use an "
            "index that you trust; if the package is your own, give --pin with the SHA-256 of its wheel."
        )
    if done.returncode:
        problem = [line for line in done.stderr.splitlines() if "ERROR" in line][-1:] or ["pip failed"]
        raise BadInput(
            f"There is no wheel for {profile.name} (Python {recipe.python}, {profile.architecture}): {problem[0]}. "
            "What only a vendor offers goes into a folder that EDGEVEIL_FIND_LINKS names."
        )


def _refuse_unknown(requirements: dict[str, list[str]]) -> None:
    unknown = [name for name, hashes in requirements.items() if not hashes]
    if unknown:
        raise BadInput(
            f"The SHA-256 of {', '.join(unknown)} is not known here, and an index may answer with anything. Compare "
            "its wheel with its maker's, then give --pin SHA256; without --with, the profile's own packages are taken."
        )
    unpinned = [name for name in requirements if not _PINNED.fullmatch(name)]
    if unpinned:
        raise BadInput(f"Expected a package with its exact version, as numpy==1.26.4; got {', '.join(unpinned)}.")


def _newest_glibc(system: str) -> int:
    match = re.search(r"glibc 2\.(\d+)", system)
    if not match:
        raise DeviceFailed(f"The profile does not say its C library's version ({system}); it must, as 'glibc 2.31'.")
    return int(match.group(1))


def _pack(wheels: list[Path], place: Path) -> bytes:
    """All wheels' files in one archive, sorted, stored and undated: the same wheels give the same bytes."""
    contents: dict[str, bytes] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as opened:
            for name in opened.namelist():
                if not name.endswith("/"):
                    contents[_unpacked_path(name)] = opened.read(name)
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in sorted(contents):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, contents[name])
    return place.read_bytes()


def _unpacked_path(name: str) -> str:
    """Where a wheel's file goes: what is below ``*.data/purelib`` or ``platlib`` belongs next to the packages."""
    parts = name.split("/")
    if parts[0].endswith(".data") and len(parts) > 2:
        return "/".join(parts[2:])
    if name.startswith("/") or ".." in parts:
        raise BadInput(f"A wheel holds the path {name}, which leads out of it. Do not use that wheel.")
    return name


def _versions(wheels: list[Path]) -> dict[str, str]:
    try:
        parsed = [parse_wheel_filename(wheel.name) for wheel in wheels]
    except InvalidWheelFilename as error:
        raise BadInput(f"{error}. Use wheels with a valid file name.") from None
    return {name: str(version) for name, version, _, _ in parsed}


def _oldest_glibc(wheels: list[Path]) -> str | None:
    """The oldest C library that all of them run on, from their names."""
    needed = []
    for wheel in wheels:
        platforms = [tag.platform for tag in parse_wheel_filename(wheel.name)[3]]
        minors = [int(minor) for minor in re.findall(r"manylinux_2_(\d+)_", " ".join(platforms))]
        minors += [17 for platform in platforms if platform.startswith("manylinux2014")]
        if minors:
            needed.append(min(minors))
    return f"2.{max(needed)}" if needed else None


# The inputs of a flash: the bundle, verified here; the profile, the owner's trust and policy, and wheels.


@dataclass(frozen=True)
class Inputs:
    """Everything that the user named, read once and checked. ``trust`` is None for a folder of public keys alone."""

    bundle: BundleFacts
    profile: Profile
    trust: TrustFacts | None
    wheels: Wheels | None
    policy: Policy | None
    opened: Bundle


def read_inputs(bundle: Path, profile: str | Profile, trust: Path, wheels: Path | None) -> Inputs:
    """Read and verify everything once. Raises ``BadInput`` or ``BundleRefused``."""
    data = read_file(str(bundle))
    known = owners_trust(trust)
    opened = read_bundle(data, open_trust(trust))
    manifest = opened.manifest
    variants = {name for model in manifest.models.values() for name in model.artefacts}
    facts = BundleFacts(
        sha=opened.manifest_sha256,
        name=manifest.name,
        size=len(data),
        security_version=manifest.security_version,
        key=opened.key,
        audience=manifest.audience,
        development=opened.development,
        artefacts=tuple(name for name in manifest.preference if name in variants),
        data=data,
        spends=manifest.spending is not None or (manifest.counts is not None and manifest.counts.noise is not None),
        leaks=leaks(opened.audit),
        unheld=stream_bound.unheld(manifest.document["stages"], manifest.document.get("stream")),
        stream_bound=stream_bound.stream_bound(manifest.document).text,
        # Not the bundle's own: what runs as root is this toolkit's, which its owner chose, not a signing key's.
        runtime=zipapp_bytes(),
    )
    brought = None if wheels is None else open_wheels(wheels)
    return Inputs(facts, profiles.load(profile), known, brought, open_policy(str(trust / POLICY_FILE)), opened)


def owners_trust(folder: Path) -> TrustFacts | None:
    """The folder of ``edgeveil trust init``, with its files that are sent to a board: never the root's private key.

    None for a folder that only has public keys, which is enough for a board that knows its keys already.
    """
    data = read_part(str(folder), TRUST_FILE)
    if data is None:
        return None
    root = read_public_key(folder / ROOT_KEY)
    file = read_trust_file(data, root)
    files = {ROOT_KEY: (folder / ROOT_KEY).read_bytes(), TRUST_FILE: data}
    for name in (POLICY_FILE, SIGNED_POLICY_FILE):
        part = read_part(str(folder), name)
        if part is not None:
            files[name] = part
    keys = tuple(key.key for key in file.keys if key.key not in file.revoked)
    if not keys:
        raise BadInput(f"{folder / TRUST_FILE} names no key that may sign: add one first (edgeveil trust add).")
    return TrustFacts(
        root.key, file.version, keys, tuple(file.revoked), file.security_version, file.audience, files, root.development
    )
