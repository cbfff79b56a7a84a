"""Takes each guard of tests/security/guards.toml out of a copy of this tree, and expects its test to fail.

A guard is red where its test, which passes on the whole tree, fails without it. Anything else is an error: a test that
does not see its guard gone holds nothing. Takes half a minute for each guard.

Records docs/results/security/guards.json.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomllib

from edgeveil.edge_runtime import machine
from edgeveil.edge_runtime.errors import DeviceFailed
from edgeveil.trainer.progress import say
from scripts import record

GUARDS, RESULT = Path("tests/security/guards.toml"), Path("docs/results/security/guards.json")
LIMIT_S = 600
_COUNTS = re.compile(r"(\d+) (passed|failed|error|skipped)")


def read_guards() -> list[dict[str, str]]:
    """The entries of the table: ``finding``, ``attack``, ``file``, ``text``, ``without``, ``test``."""
    return list(tomllib.loads((record.ROOT / GUARDS).read_text())["guard"])


def taken_out(guard: Mapping[str, str], tree: Path) -> str:
    """The text of the guard's file without it. Raises ``DeviceFailed`` where it does not stand there exactly once."""
    text = (tree / guard["file"]).read_text()
    times = text.count(guard["text"])
    if times != 1:
        raise DeviceFailed(f"{guard['file']} has {times} times what {GUARDS} takes out ({guard['attack']}), not once.")
    return text.replace(guard["text"], guard["without"])


def copied(folder: Path) -> Path:
    """The files that git knows of this tree, as they are now, in ``folder``; with the packages by their names."""
    tree = folder / "tree"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=record.ROOT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (record.ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(record.ROOT / name, tree / name)
    shutil.copytree(record.ROOT / ".venv" / "src", tree / ".venv" / "src", symlinks=True)
    folder.chmod(0o755)
    return tree


def outcome(test: str, tree: Path) -> dict[str, int]:
    """How many cases of a test passed, failed and were skipped in ``tree``."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", "--tb=no", test],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / ".venv" / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    counts = {word: int(number) for number, word in _COUNTS.findall(done.stdout.strip().splitlines()[-1])}
    return {word: counts.get(word, 0) for word in ("passed", "failed", "error", "skipped")}


def measured(guard: Mapping[str, str], tree: Path) -> dict[str, Any]:
    """The outcomes with the guard and without it, and whether it is ``red`` without."""
    path = tree / guard["file"]
    whole, without = path.read_text(), taken_out(guard, tree)
    before = outcome(guard["test"], tree)
    try:
        path.write_text(without)
        after = outcome(guard["test"], tree)
    finally:
        path.write_text(whole)
    red = before["passed"] > 0 and not before["failed"] + before["error"] and after["failed"] > 0
    facts = {name: guard[name] for name in ("finding", "attack", "file", "test")}
    return {**facts, "with": before, "without": after, "red": red}


def main() -> int:
    """Measure all, or those of some findings."""
    script = record.Script(__file__, __doc__, out=RESULT)
    script.add_argument("words", nargs="*", help="findings to measure; the record keeps the other guards")
    options = script.parse_args()
    guards = [guard for guard in read_guards() if not options.words or guard["finding"] in options.words]
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        tree = copied(Path(folder))
        for guard in guards:
            taken_out(guard, tree)
        for guard in guards:
            outcomes.append(measured(guard, tree))
            state = "red" if outcomes[-1]["red"] else "NOT RED"
            say(f"{state}: {guard['finding']}, {guard['attack']}: {outcomes[-1]['with']}, {outcomes[-1]['without']}")
    now = {one["attack"]: one for one in outcomes}
    before = {one["attack"]: one for one in record.read(options.out).get("guards", [])} if options.words else {}
    rows = [{**before, **now}.get(guard["attack"]) for guard in read_guards()]
    result = {"kind": "guards", "guards": [row for row in rows if row], "machine": machine.facts()}
    record.write(options.out, script.path, result)
    return 0 if all(guard["red"] for guard in outcomes) else 3


if __name__ == "__main__":
    record.run(main)
