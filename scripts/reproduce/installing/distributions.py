"""What the probe of a board finds in real distributions, under the Python and numpy that each of them ships.

mmdebstrap unpacks Debian 11, 12 and 13 for arm64, which run under qemu's user emulation, and Ubuntu 18.04, 20.04, 22.04
and 24.04 for x86-64 (its arm64 is on another server) into a folder. ``devices/agents/gather_facts.py`` goes to each on
its standard input, as a flash sends it; beside the distribution's numpy, the wheels of the profile's recipe are where
a flash unpacks them. A distribution that no server here has is recorded with what the server said. Needs root, and
mmdebstrap and qemu-user-static. Records docs/results/devices/distributions.json.
"""

import hashlib
import json
import subprocess
import tempfile
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from edgeveil.devices import profiles
from edgeveil.devices.flashing.wheels import ARCHIVE, collect
from edgeveil.edge_runtime.errors import BadInput, DeviceFailed
from scripts.emulation import trees
from scripts.reproduce import record
from scripts.reproduce.installing.userlands import AGENT, LEFT_OUT

RESULT = Path("docs/results/devices/distributions.json")
DEBIAN, UBUNTU = "http://deb.debian.org/debian", "http://archive.ubuntu.com/ubuntu"
PACKAGES = "base-files,bash,coreutils,libc-bin,libgomp1,libstdc++6,python3,python3-numpy"
# Debian packages no keys of Ubuntu's. The package's hash, and the keys in it, are those of Ubuntu 18.04's index.
KEYRING = f"{UBUNTU}/pool/main/u/ubuntu-keyring/ubuntu-keyring_2018.09.18.1~18.04.2_all.deb"
KEYRING_SHA256 = "5d8609563fb3074026b254d7d5248f90d393c7dbafcac48916f333bf3c90fed9"
PLACE = "/opt/edgeveil"


class Distribution(NamedTuple):
    """A release; ``profile`` is that of a board that has it, whose wheels are sent, or None."""

    server: str
    suite: str
    architecture: str
    profile: str | None = None


ROWS = {
    "debian-10": Distribution(DEBIAN, "buster", "arm64"),
    "debian-11": Distribution(DEBIAN, "bullseye", "arm64", "coral-usb"),
    "debian-12": Distribution(DEBIAN, "bookworm", "arm64", "raspberry-pi-cpu"),
    "debian-13": Distribution(DEBIAN, "trixie", "arm64", "raspberry-pi-cpu"),
    "ubuntu-18.04": Distribution(UBUNTU, "bionic", "amd64"),
    "ubuntu-20.04": Distribution(UBUNTU, "focal", "amd64"),
    "ubuntu-22.04": Distribution(UBUNTU, "jammy", "amd64"),
    "ubuntu-24.04": Distribution(UBUNTU, "noble", "amd64"),
}


def main() -> int:
    """Probe and record; exit code 4 where nothing can be unpacked or emulated here."""
    script = record.Script(__file__, __doc__, out=RESULT)
    script.add_argument("--only", nargs="+", choices=ROWS, help="these alone, for a try")
    options = script.parse_args()
    try:
        trees.need("mmdebstrap", trees.QEMU, "chroot")
        trees.register()
    except trees.NoBoard as error:
        raise DeviceFailed(f"{error}.") from None
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        keyring = _ubuntus_keys(Path(folder))
        for name in options.only or ROWS:
            found[name] = probed(ROWS[name], Path(folder) / name, keyring)
            print(name, found[name].get("unreachable") or found[name]["facts"]["python"])
    what = "facts by the Pythons of real distributions; arm64 under qemu's user emulation"
    record.write(options.out, script.made_by(options), {"what": what, "distributions": found})
    return 0


def probed(one: Distribution, root: Path, keyring: Path) -> dict[str, Any]:
    """A distribution's packages, the command and the facts; or what its server said. Raises ``DeviceFailed``."""
    release = f"{one.server}/dists/{one.suite}/Release"
    try:
        urllib.request.urlopen(release, timeout=60).close()  # noqa: S310 - one of ROWS
    except urllib.error.HTTPError as error:
        return {"unreachable": f"{release}: HTTP {error.code}"}
    try:
        _unpack(one, root, keyring)
    except trees.NoBoard as error:
        raise DeviceFailed(f"{error}.") from None
    paths, wheels = [], {}
    version = _run(root, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").decode().strip()
    if one.profile is not None:
        wheels = _wheels(one.profile, version, root)
        paths = [f"{PLACE}/site"] if wheels else []
    facts = json.loads(_run(root, "-", PLACE, "", *paths, data=(record.ROOT / AGENT).read_bytes()))
    return {
        "unpacked": f"mmdebstrap --variant=extract --architectures={one.architecture} --include={PACKAGES} "
        f"{one.suite} ROOT {one.server}",
        "command": " ".join(["chroot ROOT python3 -", PLACE, "''", *paths, "<", AGENT]),
        "profile": one.profile,
        "wheels": wheels,
        "facts": {key: value for key, value in facts.items() if key not in LEFT_OUT},
    }


def _unpack(one: Distribution, root: Path, keyring: Path) -> None:
    command = [
        "mmdebstrap",
        "--quiet",
        f"--architectures={one.architecture}",
        "--variant=extract",
        "--format=directory",
    ]
    command += ["--aptopt=APT::Install-Recommends false", "--aptopt=Acquire::Languages none"]
    command += [] if one.server == DEBIAN else [f"--keyring={keyring}", "--components=main,universe"]
    trees.run([*command, f"--include={PACKAGES}", one.suite, str(root), one.server], timeout_s=900)
    # What the packages' scripts would have done: nothing of theirs was run.
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    for library in root.glob("usr/lib/*-linux-gnu/*/lib[bl]*as.so.3"):
        (library.parents[1] / library.name).symlink_to(library.relative_to(library.parents[1]))
    for library in root.glob("usr/lib/*-linux-gnu/lapack/liblapack.so.3"):
        (library.parents[1] / library.name).symlink_to(library.relative_to(library.parents[1]))


def _wheels(profile: str, python: str, root: Path) -> dict[str, str]:
    """Unpack the wheels of the profile's recipe; interpreter -> version. Nothing where it has none for this Python."""
    try:
        wheels = collect(profiles.load(profile), root / "wheels", python=python)
    except BadInput:
        return {}
    with zipfile.ZipFile(root / "wheels" / ARCHIVE) as archive:
        archive.extractall(root / PLACE.lstrip("/") / "site")
    return dict(wheels.interpreters)


def _run(root: Path, *words: str, data: bytes = b"") -> bytes:
    """The output of the distribution's Python. Raises ``DeviceFailed``."""
    (root / "dev").mkdir(exist_ok=True)
    (root / "dev/null").touch()
    command = [
        "chroot",
        str(root),
        "/usr/bin/env",
        "-i",
        "PATH=/usr/bin:/bin",
        "QEMU_CPU=cortex-a53",
        "python3",
        *words,
    ]
    done = subprocess.run(command, input=data, capture_output=True, timeout=900, check=False)
    if done.returncode:
        raise DeviceFailed(f"Its Python ended with {done.returncode}: {done.stderr.decode(errors='replace')[-300:]}.")
    return done.stdout


def _ubuntus_keys(folder: Path) -> Path:
    """Ubuntu's keys, out of a package of a known hash. Raises ``DeviceFailed``."""
    package = folder / "keyring.deb"
    with urllib.request.urlopen(KEYRING, timeout=60) as answer:  # noqa: S310 - the address is above
        package.write_bytes(answer.read())
    if hashlib.sha256(package.read_bytes()).hexdigest() != KEYRING_SHA256:
        raise DeviceFailed(f"{KEYRING} is not what it was: its hash differs.")
    trees.run(["dpkg-deb", "-x", str(package), str(folder / "keys")])
    return folder / "keys/usr/share/keyrings/ubuntu-archive-keyring.gpg"


if __name__ == "__main__":
    record.run(main)
