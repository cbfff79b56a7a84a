"""A process that takes jobs from its stdin, a line each, and prints a line for each answer."""

from __future__ import annotations

import json
import sys

from edgeveil.edge_runtime.sandbox import hardening
from edgeveil.trainer.engines.job import Job


def main() -> None:
    """Run jobs until stdin ends."""
    hardening.end_with_parent()
    answers = sys.stdout
    sys.stdout = sys.stderr  # output of libraries is no answer
    for line in sys.stdin:
        answer = Job(*json.loads(line)).run()
        answers.write(json.dumps(answer, allow_nan=False) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
