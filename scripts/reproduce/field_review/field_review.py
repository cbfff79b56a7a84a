"""Each finding of the review of the boards: what version 0.1 answers, and the tests that hold it today.

Version 0.1 is unpacked from the history of this checkout. A finding is red there where its probe's answer is what the
review says, and green here where all tests of it pass, or are skipped beside some that pass. Takes ten minutes.

Records docs/results/devices/field-review.json; exit code 3 where a finding is not red there or not green here.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import tomllib

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.progress import say
from scripts.reproduce import record
from tests.devices.flashing.images import test_partition_table as images
from tests.support.boards import version_0_1

FOLDER = record.ROOT / "scripts/reproduce/field_review"
FINDINGS, PROBES = FOLDER / "findings.toml", FOLDER / "probes"
RESULT = Path("docs/results/devices/field-review.json")
MIB = 2**20
LIMIT_S = 300
WORDS = ("passed", "failed", "skipped")


def read_findings() -> list[dict[str, Any]]:
    """The entries of the table, in the order of the page."""
    return list(tomllib.loads(FINDINGS.read_text())["finding"])


def how(finding: Mapping[str, Any]) -> str:
    """What a finding's probe asks 0.1 about, as the probe says it itself."""
    module = ast.parse((PROBES / f"{finding['file']}.py").read_text())
    named = (one for one in module.body if isinstance(one, ast.FunctionDef) and one.name == finding["probe"])
    return next((ast.get_docstring(one) or "" for one in named), "").rstrip(".")


def gpt_image(folder: Path) -> Path:
    """A card's image as the tests make one: a GPT, and an ext4 root in it."""
    image = images.gpt(folder / "card.img", [(12 * MIB, 10 * MIB)])
    images.ext(image, 12 * MIB, 10 * MIB)
    return image


def asked(finding: Mapping[str, Any], older: Path, more: Sequence[str]) -> dict[str, Any]:
    """What 0.1 answers to a finding's probe, and whether that is ``red``; ``more`` are words for the probe."""
    with tempfile.TemporaryDirectory() as folder:
        words = [finding["file"], finding["probe"], folder, *more]
        done = subprocess.run(
            [sys.executable, "-c", "import older; older.main()", *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": f"{PROBES}{os.pathsep}{older}", "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        said = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines() or ["nothing"]
        answer = said[-1].replace(folder, "DIR").replace(str(older), "0.1")
    shown = re.search(finding["red"], answer) if done.returncode == 0 else None
    return {
        "probe": f"{finding['file']}.{finding['probe']}",
        "how": how(finding),
        "answer": answer,
        "shows": shown.group() if shown else None,
        "red": shown is not None,
    }


class Outcomes:
    """A plugin of pytest: how each case ended, by its name."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A case was called, or could not be."""
        if report.when == "call" or not report.passed:
            self.of[report.nodeid] = report.outcome

    def counted(self, test: str) -> dict[str, Any]:
        """How many cases passed, failed and were skipped of a file, a test or a case; and their names."""
        names = [name for name in self.of if _is_of(name, test)]
        counts = Counter(self.of[name] for name in names)
        return {**{word: counts[word] for word in WORDS}, "cases": names}


def _is_of(name: str, test: str) -> bool:
    return name == test or name.startswith((f"{test}::", f"{test}[", f"{test}/"))


def run(tests: Sequence[str]) -> tuple[Outcomes, int]:
    """How these tests of today end, each run once, and pytest's exit code. Raises ``BadInput`` where one is none."""
    outcomes = Outcomes()
    wanted = [one for one in tests if not any(_is_of(one, other) for other in tests if other != one)]
    code = pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", *dict.fromkeys(wanted)], [outcomes])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise BadInput(f"The tests of {FINDINGS.name} were expected to be there; pytest ended with code {int(code)}.")
    return outcomes, int(code)


def row(finding: Mapping[str, Any], before: Mapping[str, Any], outcomes: Outcomes) -> dict[str, Any]:
    """One finding, with what 0.1 answered and how its tests ended today."""
    each = [{"test": test, **outcomes.counted(test)} for test in finding["tests"]]
    total = {word: sum(one[word] for one in each) for word in WORDS}
    green = all(one["passed"] + one["skipped"] for one in each) and total["passed"] > 0 == total["failed"]
    today = {"tests": each, "green": green}
    return {"finding": finding["text"], "state": finding["state"], "on_0_1": dict(before), "today": today}


def main() -> int:
    """Ask 0.1, run the tests and write the record."""
    script = record.Script(__file__, __doc__, "--python python3.6 --python python3.7", out=RESULT)
    script.add_argument("--python", type=Path, action="append", default=[], help="a Python 3.6 or 3.7, for its probe")
    options = script.parse_args()
    findings = read_findings()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        folder.chmod(0o755)
        older = version_0_1.unpacked(folder / "older").folder
        more = {"gpt_card": [str(gpt_image(folder))], "glibc_of_an_old_python": [str(one) for one in options.python]}
        before = []
        for finding in findings:
            before.append(asked(finding, older, more.get(finding["probe"], [])))
            say(f"{'red' if before[-1]['red'] else 'NOT RED'}: {finding['text']}: {before[-1]['answer'][:200]}")
    outcomes, code = run([test for finding in findings for test in finding["tests"]])
    rows = [row(*each, outcomes) for each in zip(findings, before, strict=True)]
    document = {
        "kind": "field-review",
        "older": {"version": "0.1.0", "commit": version_0_1.COMMIT},
        "red": sum(one["on_0_1"]["red"] for one in rows),
        "pytest": code,
        "green": sum(one["today"]["green"] for one in rows),
        "rows": rows,
        **record.here(),
    }
    record.write(options.out, script.path, document)
    for one in rows:
        if not one["today"]["green"]:
            say(f"NOT GREEN: {one['finding']}: {one['today']['tests']}")
    return 0 if document["red"] == document["green"] == len(rows) else 3


if __name__ == "__main__":
    record.run(main)
