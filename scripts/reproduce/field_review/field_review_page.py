"""The page docs/results/field-review.md: each finding of the review, on version 0.1 and today, from its record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scripts.reproduce.field_review import field_review
from scripts.reproduce.pages.rendering import render, write_from
from scripts.reproduce.record import ROOT

NAME = "field-review"
RECORD, PAGE = field_review.RESULT, Path("docs/results/field-review.md")


def tests(today: dict[str, Any]) -> str:
    """The files of a finding's tests, each with what its cases came to."""
    files: dict[str, list[dict[str, Any]]] = {}
    for one in today["tests"]:
        files.setdefault(one["test"].partition("::")[0], []).append(one)
    told = []
    for file, cases in files.items():
        counts = {word: sum(case[word] for case in cases) for word in field_review.WORDS}
        words = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        told.append(f"`{file}`: {words}")
    return "; ".join(told)


def older(asked: dict[str, Any]) -> str:
    """What 0.1 answered to a finding's probe, as much of it as shows the finding."""
    answer = f"`{asked['shows']}`" if asked["red"] else f"not red, `{asked['answer']}`"
    return f"{asked['how']}: {answer}"


def page(record: dict[str, Any]) -> str:
    """The page on the review's findings as Markdown."""
    probes = [path.relative_to(ROOT).as_posix() for path in sorted(field_review.PROBES.glob("*.py"))]
    return render("field-review", filters={"tests": tests, "older": older}, record=record, probes=probes)


def write() -> None:
    """Write the page, where its record is."""
    write_from(RECORD, PAGE, page)
