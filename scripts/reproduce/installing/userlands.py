"""What the probe of a board finds under the real Pythons of boards, each with what its board has installed.

``devices/agents/gather_facts.py`` goes to each interpreter of ``scripts/environments/pythons.py`` on its standard
input, as a flash sends it. What is this machine's own, and no fact of the interpreter, is left out. The planner's tests
read these facts. Records docs/results/devices/userlands.json.
"""

import json
import subprocess
import sys
from pathlib import Path

from scripts.environments import pythons
from scripts.reproduce import record

RESULT, AGENT = Path("docs/results/devices/userlands.json"), "devices/agents/gather_facts.py"
# Of the machine: its name, users, disk and processor; the system is named once for all.
LEFT_OUT = (
    *("board", "edgeveil", "executable", "free_bytes", "ledger", "read_only", "services", "sudo", "systemd", "uid"),
    "volatile",
)


def main() -> int:
    """Probe and record; exit code 4 where an interpreter is not here."""
    script = record.Script(__file__, __doc__, out=RESULT)
    options = script.parse_args()
    found, missing = {}, []
    for name, (version, asked) in pythons.ROWS.items():
        python = pythons.environment(name)
        if python is None:
            missing.append(f"{name} (Python {version})")
            continue
        agent = (record.ROOT / AGENT).read_bytes()
        done = subprocess.run([str(python), "-", "/opt/edgeveil", ""], input=agent, capture_output=True, check=True)
        facts = {key: value for key, value in json.loads(done.stdout).items() if key not in LEFT_OUT}
        found[name] = {
            "command": f".venvs/{name}/bin/python - /opt/edgeveil '' < {AGENT}",
            "asked": asked,
            "facts": facts,
        }
    if missing:
        print(f"error: no interpreter here for {', '.join(missing)}.", file=sys.stderr)
        return 4
    record.write(options.out, script.made_by(options), {"what": "facts by real interpreters", "userlands": found})
    return 0


if __name__ == "__main__":
    record.run(main)
