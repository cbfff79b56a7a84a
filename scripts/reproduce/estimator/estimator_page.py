"""The tables of docs/results/estimator.md from the records of the estimator."""

from pathlib import Path

from edgeveil.trainer.report.bench import write_guide

NAME = "estimator"
RECORDS, PAGE = Path("docs/results/bench"), Path("docs/results/estimator.md")


def write() -> None:
    """Bring the page up to date with its records."""
    write_guide(RECORDS, PAGE)
