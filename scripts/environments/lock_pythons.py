"""Write requirements/pyXY*.txt, the hashed locks of pythons.py. They hold no address.

    .venv/bin/python -m scripts.environments.lock_pythons            all of them
    .venv/bin/python -m scripts.environments.lock_pythons py36       some of them

The hashes cover every wheel of a release, x86-64 and ARM alike, so one file serves a workstation and a board.
"""

from __future__ import annotations

import subprocess
import sys

from scripts.environments.pythons import ROOT, ROWS, asked


def main() -> int:
    for name in asked(__doc__):
        version, wanted = ROWS[name]
        out = ROOT / "requirements" / f"{name}.txt"
        # Not from pyproject.toml: these are older than what the distribution itself asks for.
        command = [str(ROOT / ".venv/bin/uv"), "pip", "compile", "-", "--quiet", "--python-version", version]
        command += ["--only-binary", ":all:", "--generate-hashes", "--no-header", "--no-annotate", "--no-config"]
        command += ["--no-emit-index-url", "--no-emit-find-links"]
        text = subprocess.run(command, input="\n".join(wanted), capture_output=True, text=True, check=True).stdout
        out.write_text(text.rstrip("\n") + "\n")
        print(f"{out.relative_to(ROOT)}: {text.count('==')} packages", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
