"""Build one environment for each interpreter that boards have, from the hashed files in requirements/.

    .venv/bin/python -m scripts.environments.pythons            all of them
    .venv/bin/python -m scripts.environments.pythons py36 py37  some of them

They lie in .venvs/, or in the folder EDGEVEIL_VENVS names. An interpreter is looked for as pythonX.Y on PATH and in
~/.pyenv/versions; Python 3.14 also in Debian's next release, from which mmdebstrap unpacks it (root alone can do that).
One that is missing is said so, and ends the command with 4. The workstation's own pip unpacks the
wheels, as it would for a board: the pips that came with Python 3.6 and 3.7 refuse the names of newer wheels.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# name: Python, what is asked for; requirements/NAME.txt is the lock. lock_pythons.py writes the locks.
ROWS = {
    "py36": ("3.6", ["numpy==1.19.4", "onnxruntime==1.10.0"]),
    "py37": ("3.7", ["numpy==1.21.6", "tflite-runtime==2.11.0"]),
    "py38": ("3.8", ["numpy==1.24.4"]),
    "py39-tflite": ("3.9", ["numpy==1.26.4", "tflite-runtime==2.14.0"]),
    "py39-openvino": ("3.9", ["openvino==2022.3.2"]),
    "py310": ("3.10", ["numpy==2.2.6"]),
    "py311-litert": ("3.11", ["numpy==2.4.6", "ai-edge-litert==2.3.0", "backports-strenum<1.3"]),
    "py311-tflite": ("3.11", ["numpy==1.26.4", "tflite-runtime==2.14.0"]),
    "py311-openvino": ("3.11", ["openvino==2026.4.1"]),
    "py312": ("3.12", ["numpy==2.4.6"]),
    "py313": ("3.13", ["numpy==2.4.6"]),
    "py314": ("3.14", ["numpy==2.4.6"]),
}
DEBIAN = {"3.14": "forky"}  # the release that has it
# It runs on the C library that was unpacked with it; argv[0] is what Python takes for its own path.
_START = """#!/bin/sh
exec '{tree}'/usr/lib64/ld-linux-*.so.* --argv0 "$0" --library-path '{libraries}' '{tree}/usr/bin/python{version}' "$@"
"""
# Every name under which a wheel for this machine may go: its own glibc and the older ones.
_MINOR = int((platform.libc_ver()[1] or "2.31").split(".")[1])
GLIBC = [f"manylinux_2_{n}" for n in range(_MINOR, 4, -1)] + ["manylinux2014", "manylinux2010", "manylinux1"]


STAMP = "lock.sha256"


def folder() -> Path:
    """Where the environments lie, or would."""
    return Path(os.environ.get("EDGEVEIL_VENVS", ROOT / ".venvs")).resolve()


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """Tests in several processes ask for the same environment or interpreter: one of them makes it."""
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / f"{name}.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        yield


def interpreter(version: str) -> str | None:
    """The path of a CPython X.Y, or None."""
    candidates = [shutil.which(f"python{version}")]
    pattern = f"{version}.*/bin/python"
    candidates += [str(path) for path in sorted(Path.home().glob(f".pyenv/versions/{pattern}"), reverse=True)]
    for candidate in filter(None, candidates):
        probe = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        # A pyenv shim is on PATH and runs nothing where that version is not selected.
        probed = subprocess.run(probe, capture_output=True, text=True, check=False)
        if probed.returncode == 0 and probed.stdout.strip() == version:
            return candidate
    return _unpacked(version) if version in DEBIAN else None


def _unpacked(version: str) -> str | None:
    """Debian's Python in a tree of its own, unpacked first where it is missing; None where that cannot be done."""
    tree = folder() / f"debian-python{version}"
    start = tree / "usr/bin/start"
    with alone(tree.name):
        if start.exists():
            return str(start)
        if os.geteuid() or shutil.which("mmdebstrap") is None:
            return None
        shutil.rmtree(tree, ignore_errors=True)
        command = ["mmdebstrap", "--quiet", "--variant=extract", "--format=directory"]
        # A mirror that stands still says so with a date in the past; the signature is checked all the same.
        command += ['--aptopt=Acquire::Check-Valid-Until "false"', f"--include=python{version}-venv", DEBIAN[version]]
        done = subprocess.run([*command, str(tree)], capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"python{version} was not unpacked: {done.stderr.strip()[-300:]}", file=sys.stderr)
            return None
        libraries = ":".join(map(str, tree.glob("usr/lib/*-linux-gnu")))
        start.write_text(_START.format(tree=tree, libraries=libraries, version=version))
        start.chmod(0o755)
    return str(start)


def environment(name: str) -> Path | None:
    """The Python of the environment called ``name``, built first where it is missing or stale; None: no interpreter."""
    version, _ = ROWS[name]
    python = interpreter(version)
    if python is None:
        return None
    lock = ROOT / "requirements" / f"{name}.txt"
    place = folder() / name
    want = hashlib.sha256(lock.read_bytes() + python.encode()).hexdigest()
    with alone(name):
        if not (place / STAMP).exists() or (place / STAMP).read_text() != want:
            _build(place, python, version, lock)
            (place / STAMP).write_text(want)
    return place / "bin" / "python"


def _build(place: Path, python: str, version: str, lock: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run([python, "-m", "venv", "--without-pip", str(place)], check=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    platforms = [f"--platform={glibc}_{platform.machine()}" for glibc in GLIBC]
    target = place / "lib" / f"python{version}" / "site-packages"
    options = [f"--python-version={version}", "--only-binary=:all:", "--require-hashes", f"--target={target}"]
    # Some pips hold a wheel's Requires-Python against the Python they run on; its tag was matched already.
    options.append("--ignore-requires-python")
    subprocess.run([*pip, *platforms, *options, f"--requirement={lock}"], check=True)


def asked(text: str | None) -> list[str]:
    """The environments that the command line names, or all."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ROWS)}; left out: all")
    names = parser.parse_args().names
    if unknown := [name for name in names if name not in ROWS]:
        parser.error(f"expected names of {', '.join(ROWS)}; got {', '.join(unknown)}")
    return names or list(ROWS)


def main() -> int:
    names = asked(__doc__)
    missing = set()
    for name in names:
        python = environment(name)
        if python is None:
            missing.add(ROWS[name][0])
        print(f"{name}: {python or 'MISSING, no Python ' + ROWS[name][0] + ' here'}", file=sys.stderr)
    if missing:
        versions = ", ".join(sorted(missing, key=_number))
        print(f"error: no Python {versions} here. Install it (pyenv can) and run this again.", file=sys.stderr)
    return 4 if missing else 0


def _number(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


if __name__ == "__main__":
    sys.exit(main())
