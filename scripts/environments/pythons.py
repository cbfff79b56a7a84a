"""Build one environment for each interpreter that boards have, from the hashed files in requirements/.

    .venv/bin/python -m scripts.environments.pythons            all of them
    .venv/bin/python -m scripts.environments.pythons py36 py37  some of them

They lie in .venvs/, or in the folder EDGEVEIL_VENVS names. An interpreter is looked for as pythonX.Y on PATH and in
~/.pyenv/versions; one that is missing is said so, and ends the command with 4. The workstation's own pip unpacks the
wheels, as it would for a board: the pips that came with Python 3.6 and 3.7 refuse the names of newer wheels.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
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
}
# Every name under which a wheel for this machine may go: its own glibc and the older ones.
_MINOR = int((platform.libc_ver()[1] or "2.31").split(".")[1])
GLIBC = [f"manylinux_2_{n}" for n in range(_MINOR, 4, -1)] + ["manylinux2014", "manylinux2010", "manylinux1"]


STAMP = "lock.sha256"


def interpreter(version: str) -> str | None:
    """The path of a CPython X.Y, or None."""
    candidates = [shutil.which(f"python{version}")]
    pattern = f"{version}.*/bin/python"
    candidates += [str(path) for path in sorted(Path.home().glob(f".pyenv/versions/{pattern}"), reverse=True)]
    for candidate in filter(None, candidates):
        probe = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        # A pyenv shim is on PATH and runs nothing where that version is not selected.
        found = subprocess.run(probe, capture_output=True, text=True, check=False)
        if found.returncode == 0 and found.stdout.strip() == version:
            return candidate
    return None


def environment(name: str) -> Path | None:
    """The Python of the environment called ``name``, built first where it is missing or stale; None: no interpreter."""
    version, _ = ROWS[name]
    python = interpreter(version)
    if python is None:
        return None
    lock = ROOT / "requirements" / f"{name}.txt"
    folder = Path(os.environ.get("EDGEVEIL_VENVS", ROOT / ".venvs")).resolve() / name
    want = hashlib.sha256(lock.read_bytes() + python.encode()).hexdigest()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{name}.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)  # tests in several processes ask for the same one
        if not (folder / STAMP).exists() or (folder / STAMP).read_text() != want:
            _build(folder, python, version, lock)
            (folder / STAMP).write_text(want)
    return folder / "bin" / "python"


def _build(folder: Path, python: str, version: str, lock: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps"]
    platforms = [f"--platform={glibc}_{platform.machine()}" for glibc in GLIBC]
    target = folder / "lib" / f"python{version}" / "site-packages"
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
