"""Downgrades and mix and match: how many cases each way onto a board was tried with, and whether all were refused.

The cases are tests; each says which way and which attack it is, and of how many cases. This runs them and counts:
a case is refused where its test passes. Exit code 3 where one was not. Records docs/results/security/downgrades.json.
"""

import collections
from pathlib import Path
from typing import Any

import pytest

from scripts.reproduce import record

RESULT = Path("docs/results/security/downgrades.json")
FILES = (
    "bundle/test_accepted_trust.py",
    "bundle/test_trust_matrix.py",
    "releases/test_downgrades.py",
    "releases/test_update.py",
)


class Counter:
    """A plugin of pytest: cases and refusals by way and attack."""

    def __init__(self) -> None:
        self.cases: dict[str, dict[str, collections.Counter[str]]] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test that was called, or could not be."""
        said = dict(report.user_properties)
        if "way" not in said or not (report.when == "call" or report.failed):
            return
        found = self.cases.setdefault(said["way"], {}).setdefault(said["attack"], collections.Counter())
        found["cases"] += said["cases"]
        found["refused"] += said["cases"] if report.passed else 0


def main() -> int:
    """Run the tests and write the record."""
    script = record.Script(__file__, __doc__, out=RESULT)
    asked = script.parse_args()
    counter = Counter()
    code = pytest.main(
        ["-q", "-n", "0", "-p", "no:cacheprovider", *(f"tests/edge_runtime/{name}" for name in FILES)], [counter]
    )
    every = [one for attacks in counter.cases.values() for one in attacks.values()]
    total = {name: sum(one[name] for one in every) for name in ("cases", "refused")}
    ways = {way: {name: dict(one) for name, one in sorted(counter.cases[way].items())} for way in sorted(counter.cases)}
    for way, attacks in ways.items():
        print(f"{way}:")
        for name, one in attacks.items():
            print(f"  {name}: {one['refused']} of {one['cases']}")
    print(f"in all {total['refused']} of {total['cases']} refused")
    record.write(asked.out, script.made_by(asked), {"ways": ways, "total": total})
    return 0 if code == 0 and total["cases"] == total["refused"] else 3


if __name__ == "__main__":
    record.run(main)
