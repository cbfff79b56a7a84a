"""The page docs/results/private-models.md from the records of scripts/reproduce/dp/training/; no number is typed by
hand, but for what papers print."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from edgeveil.edge_runtime.storage.atomic import write_atomic
from scripts.reproduce.pages.rendering import render

Record = Mapping[str, Any]
NAME = "private-models"
PAGE = Path("docs/results/private-models.md")
RECORDS = ("functional", "inversion", "erm-adult", "erm-kdd", "erm-rows", "accounting", "case-study", "audit",
           "membership", "fit-times", "clipped-sums", "encoder", "codebook", "oracles")  # fmt: skip
FOLDER = Path("docs/results/dp")
TABLE_2 = {0.5: (0.52, 1.04), 0.25: (0.265, 1.061), 0.1: (0.107, 1.074), 0.05: (0.054, 1.079), 0.025: (0.027, 1.081),
           0.01: (0.011, 1.082)}  # fmt: skip
MARGINAL, ATTACK_AT_HUNDREDTH = 0.53, 0.57  # as paper 004 prints them
STILL_ACCURATE = 0.75


def records(root: Path = Path()) -> dict[str, Record]:
    """Those that are there, by name."""
    paths = {name: root / FOLDER / f"{name}.json" for name in RECORDS}
    return {name: json.loads(path.read_text()) for name, path in paths.items() if path.is_file()}


def figure(value: Mapping[str, float]) -> str:
    """An estimate of what cannot be below 0, with its interval."""
    return f"{value['estimate']:.3f} [{max(0.0, value['low']):.3f}, {value['high']:.3f}]"


def fit(functional: Record, **settings: Any) -> Record:
    """The row of paper 004's figures with these settings, others as in ``functional.Setting``."""
    wanted = {"epsilon": 1.0, "gamma": 1.0, "calibration": "paper", "sensitive": True, **settings}
    (found,) = (row for row in functional["rows"] if all(row[key] == value for key, value in wanted.items()))
    return dict(found)


def fits(functional: Record, key: str) -> Iterator[tuple[float, Record, Record]]:
    """(value of ``key``, with the paper's sensitivity, with the exact one) along figure 1 or 2."""
    for value in dict.fromkeys(row[key] for row in functional["rows"] if row["sensitive"]):
        yield value, *(fit(functional, **{key: value, "calibration": one}) for one in ("paper", "exact"))


def guesses(inversion: Record) -> Iterator[tuple[str, dict[str, str]]]:
    """(what is unknown, attacker -> how often it is right)."""
    for unknown in dict.fromkeys(row["unknown"] for row in inversion["rows"]):
        mine = [row for row in inversion["rows"] if row["unknown"] == unknown]
        yield unknown, {row["attacker"]: figure(row["right"]) for row in mine}


def epsilons(table: Record) -> list[float]:
    """Those of a table."""
    return [epsilon for epsilon in dict.fromkeys(row["epsilon"] for row in table["errors"]) if epsilon is not None]


def errors(table: Record) -> Iterator[tuple[str, str, dict[float | None, Record]]]:
    """(loss, method, epsilon -> row)."""
    for loss, method in dict.fromkeys((row["loss"], row["method"]) for row in table["errors"]):
        mine = [row for row in table["errors"] if (row["loss"], row["method"]) == (loss, method)]
        yield loss, method, {row["epsilon"]: row for row in mine}


class Cells(NamedTuple):
    """Of ``all`` cells those where the perturbed objective errs ``more`` than the perturbed output, and ``surely`` so:
    by an interval of the difference that is above 0."""

    all: int
    more: int
    surely: int


def objective_against_output(tables: list[Record]) -> Cells:
    """Over losses and epsilons."""
    cells = [cell for table in tables for cell in table["objective_less_output"]]
    return Cells(len(cells), sum(one["estimate"] > 0 for one in cells), sum(one["low"] > 0 for one in cells))


def differences(table: Record) -> Iterator[tuple[str, list[Record]]]:
    """(loss, for each epsilon the error of the perturbed objective less that of the perturbed output)."""
    cells = table["objective_less_output"]
    for loss in dict.fromkeys(cell["loss"] for cell in cells):
        yield loss, [cell for cell in cells if cell["loss"] == loss]


def signed(value: Mapping[str, float]) -> str:
    """A figure that may be below 0, with its interval."""
    return f"{value['estimate']:+.3f} [{value['low']:+.3f}, {value['high']:+.3f}]"


def claims(found: Mapping[str, Record]) -> Iterator[tuple[str, str, str]]:
    """(claim of a paper, held or not, why)."""
    yield from _of_paper_2(found["accounting"], found["case-study"])
    yield from _of_paper_3([table for one in on_tables(found) for table in one["tables"]], found["erm-adult"])
    yield from _of_paper_4(found["functional"], found["inversion"])


def on_tables(found: Mapping[str, Record]) -> list[Record]:
    """The records of paper 003."""
    return [record for name, record in found.items() if name in ("erm-adult", "erm-kdd")]


def _of_paper_2(accounting: Record, study: Record) -> Iterator[tuple[str, str, str]]:
    slides = accounting["paper_2"]["slides"]
    yield (
        "002: sigma = sqrt(2 log(1.25 / delta)) / epsilon for all steps",
        _word(all(min(row["rdp"], row["pld"]) <= row["claimed"] for row in slides)),
        "; ".join(f"claimed {row['claimed']:g}, spent {min(row['rdp'], row['pld']):.3f}" for row in slides)
        + ": far more noise than it needs",
    )
    small, large = sorted({row["n"] for row in study["rows"]})
    error = {(row["n"], row["epsilon"]): row["error"] for row in study["rows"]}
    yield (
        "002: high privacy needs about ten times the data",
        _word(error[large, 0.5]["estimate"] <= error[small, None]["estimate"]),
        f"error {figure(error[small, None])} without privacy at n = {small:,}, {figure(error[large, 0.5])} at "
        f"epsilon 0.5 and n = {large:,}",
    )


def _of_paper_3(tables: list[Record], adult: Record) -> Iterator[tuple[str, str, str]]:
    cells = objective_against_output(tables)
    yield (
        "003: perturb the objective, not the output",
        _word(not cells.surely),
        f"of {cells.all} cells {cells.more} have a larger error, {cells.surely} by an interval above 0",
    )
    for number, lemma in enumerate(("w moves by b's length / (L n) at most", "the loss by its square / (L n^2)"), 1):
        ends = [table["lemmas"][f"lemma_{number}"] for table in tables]
        least, most = min(one["least"] for one in ends), max(one["most"] for one in ends)
        draws = sum(table["lemmas"]["draws"] for table in tables)
        used = f"{draws:,} draws used {least:.2f} to {most:.2f} of the bound"
        yield f"003, lemma {number}: {lemma}", _word(most <= 1), used
    alone = adult["one_dimension"]
    worst = [
        max((row for row in alone if row["loss"] == loss), key=lambda row: float(row["slides"] / row["epsilon"]))
        for loss in dict.fromkeys(row["loss"] for row in alone)
    ]
    yield (
        "003: b of length Gamma(d, 1 / epsilon) is epsilon-private",
        _word(all(row["slides"] <= row["epsilon"] for row in alone)),
        "exactly, in one dimension: "
        + "; ".join(
            f"{row['loss']} loss, epsilon {row['epsilon']:g}: {row['slides']:.3f}, as shipped {row['shipped']:.3f}"
            for row in worst
        ),
    )


def _of_paper_4(functional: Record, inversion: Record) -> Iterator[tuple[str, str, str]]:
    whole = functional["table_2"][0]
    yield "004: algorithm 1 spends epsilon", "held", f"exactly {whole['exact']:.3f} of it at gamma 1"
    least = fit(functional, epsilon=0.01)
    yield (
        f"004: at epsilon .01 the attack still beats the marginal ({ATTACK_AT_HUNDREDTH} against {MARGINAL})",
        _word(least["attack"]["low"] > 1 - functional["married"]),
        f"{figure(least['attack'])} against {1 - functional['married']:.3f}",
    )
    low = [fit(functional, gamma=gamma) for gamma in (0.025, 0.01)]
    yield (
        f"004: at gamma .025 and .01 the attack is no better than {MARGINAL}, at an accuracy above {STILL_ACCURATE}",
        _word(all(row["attack"]["low"] <= 1 - functional["married"] for row in low)),
        "attack "
        + ", ".join(figure(row["attack"]) for row in low)
        + "; accuracy "
        + ", ".join(figure(row["accuracy"]) for row in low)
        + f", where {functional['majority']:.3f} is the larger class",
    )
    by = {row["attacker"]: row["right"] for row in inversion["rows"] if row["unknown"] == "nothing"}
    yield (
        "004: the attack beats a guess by the marginal",
        _word(by["model"]["low"] > by["marginal"]["high"]),
        f"{figure(by['model'])} against {by['marginal']['estimate']:.3f}; but without any model {figure(by['y'])} from "
        f"y alone, and {figure(by['attributes'])} from the other attributes",
    )


def _word(held: bool) -> str:
    return "held" if held else "not held"


def page(found: Mapping[str, Record]) -> str:
    """The page on private models and the attacks on them as Markdown."""
    functional = found["functional"]
    return render(
        "private-models",
        filters={"figure": figure, "signed": signed},
        names=list(found),
        claims=list(claims(found)),
        accounting=found["accounting"],
        study=found["case-study"],
        erms=on_tables(found),
        errors=errors,
        epsilons=epsilons,
        functional=functional,
        fits=fits,
        left_out={one: fit(functional, sensitive=False, calibration=one) for one in ("paper", "exact")},
        table_2=TABLE_2,
        inversion=found["inversion"],
        attackers=list(dict.fromkeys(row["attacker"] for row in found["inversion"]["rows"])),
        guesses=list(guesses(found["inversion"])),
        audit=found["audit"],
        differences=differences,
        membership=found.get("membership"),
        needed=found.get("erm-rows"),
        clipped=found.get("clipped-sums"),
        times=found.get("fit-times"),
        encoder=found.get("encoder"),
        codebook=found.get("codebook"),
        oracles=found.get("oracles"),
    )


def write() -> None:
    """Write the page, of however many records there are."""
    if found := records():
        write_atomic(PAGE, page(found).encode())
