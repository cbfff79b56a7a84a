"""The plan of a publication: what becomes of each column. No column passes by default.

A plan is TOML: ``[anonymity]``, and a table ``[columns.NAME]`` for each column. Its ``action`` says which keys it has.
``[frames]`` is for recordings of the table, ``[statistics.NAME]`` asks for a number with noise, ``[attack]`` for an
attack on all of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import tomllib
from pydantic import Field, ValidationError, model_validator

from edgeveil.edge_runtime.errors import BadInput, written_text
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.datasets.columns import nfc
from edgeveil.trainer.ext.publish.actions import (
    ACTIONS,
    KINDS,
    Attack,
    Column,
    Drop,
    Keep,
    PlanTable,
    Pseudonym,
    Quasi,
    Sensitive,
    Statistic,
    Target,
)
from edgeveil.trainer.ext.publish.frequency import Frequencies, Link, discernibility, unique_people, uniqueness
from edgeveil.trainer.ext.publish.generalise import Column as generalise_Column
from edgeveil.trainer.ext.publish.generalise import Generalised, Method
from edgeveil.trainer.ext.publish.levels import as_number
from edgeveil.trainer.recipe.messages import nearest, problem


class Anonymity(PlanTable):
    """``k`` people alike; ``people`` is the column that says whose a row is, and ``link`` how rows hang together."""

    k: int = Field(ge=2)
    link: Link
    people: str | None = None
    suppress: int = Field(default=0, ge=0)
    method: Method = "incognito"

    @property
    def unit(self) -> Literal["person", "row"]:
        """What a row is one of many of, and noise hides."""
        return "row" if self.people is None else "person"

    @model_validator(mode="after")
    def _whose(self) -> Anonymity:
        if (self.people is None) != (self.link == "rows"):
            raise ValueError(
                '`people`, the column that says whose a row is; or link = "rows", where each is another\'s'
            )
        return self


class Frames(PlanTable):
    """The column ``key`` says which frame is a row's; ``most_dropped`` is the share of frames that may be lost."""

    key: str
    most_dropped: float = Field(ge=0, lt=1)


@dataclass(frozen=True)
class Plan:
    """A plan whose columns all have an action. ``text`` is the file as it was read; ``frames`` is for recordings."""

    text: str
    anonymity: Anonymity
    columns: Mapping[str, Column]
    frames: Frames | None = None
    statistics: Mapping[str, Statistic] = field(default_factory=dict)
    attack: Attack | None = None

    @property
    def sha256(self) -> str:
        """Of the file as it was read."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @classmethod
    def read(cls, path: Path) -> Plan:
        """Read a plan. Raises ``BadInput`` with the key, what was expected and what came."""
        text = written_text(path, "A plan of `edgeveil publish plan`")
        try:
            document = tomllib.loads(nfc(text))
        except tomllib.TOMLDecodeError as error:
            raise BadInput(f"{path} is no TOML: {error}. Correct it.") from None
        _known(document, ("anonymity", "frames", "columns", "statistics", "attack"), path)
        anonymity = _checked(Anonymity, document.get("anonymity", {}), f"{path}: anonymity")
        tables = document.get("columns", {})
        if not isinstance(tables, dict) or not tables:
            raise BadInput(
                f"{path}: a table [columns.NAME] for each column was expected. edgeveil publish plan writes it."
            )
        columns = {
            name: _tagged(table, ACTIONS, "action", f'{path}: column "{name}"') for name, table in tables.items()
        }
        entries = document.get("statistics", {})
        if not isinstance(entries, dict) or not all(isinstance(table, dict) for table in entries.values()):
            raise BadInput(f"{path}: `statistics` was expected to be a table [statistics.NAME] for each.")
        statistics = {
            name: _tagged(table, KINDS, "kind", f'{path}: statistic "{name}"') for name, table in entries.items()
        }
        attack = _checked(Attack, document["attack"], f"{path}: attack") if "attack" in document else None
        frames = _checked(Frames, document["frames"], f"{path}: frames") if "frames" in document else None
        plan = cls(text, anonymity, columns, frames=frames, statistics=statistics, attack=attack)
        plan._check(path)
        return plan

    def of(self, kind: type[Any]) -> dict[str, Any]:
        """The columns of one action, by name."""
        return {name: column for name, column in self.columns.items() if isinstance(column, kind)}

    @property
    def published(self) -> list[str]:
        """The columns that are published, in the plan's order."""
        return [name for name, column in self.columns.items() if not isinstance(column, Drop)]

    def require_columns(self, table: Iterable[str]) -> None:
        """Raise ``BadInput`` for a column that came later than the plan, or that the table does not have."""
        names = list(table)
        for name in names:
            if name not in self.columns:
                raise BadInput(
                    f'The table has a column "{name}" that the plan does not know. Write what becomes of it.'
                )
        for name in self.columns:
            if name not in names:
                raise BadInput(f'The plan has a column "{name}"{nearest(name, names)} that the table does not have.')

    def _check(self, path: Path) -> None:
        rules = self.anonymity
        if self.frames is not None and self.frames.key not in self.of(Drop):
            raise BadInput(
                f'{path}: `frames.key` names the column that says which frame is a row\'s, with the action "drop"; '
                f'"{self.frames.key}" is none.'
            )
        self._check_attack(path)
        if rules.link == "rows":
            for name, one in self.statistics.items():
                if one.rows_each > 1:
                    raise BadInput(
                        f'{path}: statistic "{name}": with link = "rows" each row is another\'s: set rows_each = 1.'
                    )
        if not self.of(Quasi):
            raise BadInput(f'{path}: no column has the action "quasi". Say which ones others may know of a person.')
        if rules.link == "rows":
            if vaulted := [name for name, one in self.of(Pseudonym).items() if one.mode == "vault"]:
                raise BadInput(
                    f'{path}: "{vaulted[0]}" links the rows of a person, and k counts people: set anonymity.people = '
                    f'"{vaulted[0]}" and link = "person".'
                )
            return
        whose = self.columns.get(rules.people or "")
        wanted = Pseudonym if rules.link == "person" else Drop
        if not isinstance(whose, wanted):
            raise BadInput(
                f'{path}: link = "{rules.link}" takes a column of people with the action "{wanted.__name__.lower()}"; '
                f'"{rules.people}" has {whose.action if whose else "none: there is no such column"}.'
            )
        if isinstance(whose, Pseudonym) and whose.mode != "vault":
            raise BadInput(
                f'{path}: "{rules.people}" says who people are: set mode = "vault". A stateless pseudonym of a person '
                "can never be erased, for the key's holder may try every name."
            )

    def _check_attack(self, path: Path) -> None:
        if self.attack is None:
            return
        roles: list[tuple[str, str, type[Column]]] = [("sensitive", self.attack.sensitive, Drop)]
        if self.attack.target is not None:
            roles.append(("target", self.attack.target, Target))
        for role, name, wanted in roles:
            column = self.columns.get(name)
            if not isinstance(column, wanted):
                came = f"has {column.action}" if column else f"is no column of it{nearest(name, self.columns)}"
                raise BadInput(
                    f'{path}: attack.{role} takes a column with the action "{wanted.__name__.lower()}"; '
                    f'"{name}" {came}.'
                )


def _tagged(table: Any, models: Mapping[str, type[Any]], tag: str, where: str) -> Any:
    """The table as the model that its tag names."""
    word = table.get(tag) if isinstance(table, dict) else None
    if not isinstance(word, str) or word not in models:
        came = f'"{word}"{nearest(str(word), models)}' if word else "none yet"
        article = "an" if tag[0] in "aeiou" else "a"
        raise BadInput(f"{where} needs {article} {tag} of {', '.join(models)}; it has {came}.")
    return _checked(models[word], table, where)


def _known(document: Mapping[str, Any], keys: Iterable[str], path: Path) -> None:
    for key in document:
        if key not in keys:
            raise BadInput(f"{path}: `{key}` is not a key of a plan{nearest(key, keys)}; expected: {', '.join(keys)}.")


def _checked(model: type[Any], table: Any, where: str) -> Any:
    try:
        return model.model_validate(table)
    except ValidationError as error:
        raise BadInput(f"{where}: {problem(error, model, 'a plan')}.") from None


# What is said of a publication: each column and what became of it, k, l and t, and what is not promised.


MOST_SHOWN = 5  # combinations of columns of each size, the most telling ones
LIMITS = (
    "k-anonymity guards against singling a person out by the columns called quasi. It does not guard against somebody "
    "who knows more of a person than these, against inference where a class agrees, or across two publications of one "
    "table.",
    "Columns that are kept, sensitive or the target are published as they are; who knows them of a person may find "
    "that person by them.",
    "Pseudonyms are deterministic: equal identifiers stay equal, and how often each occurs shows.",
)


def statement_document(
    raw: Frequencies, plan: Plan, shown: Generalised, found: Mapping[str, float], columns: Sequence[generalise_Column]
) -> dict[str, Any]:
    """The statement as JSON has it, but for recipient and table. ``found`` is of the independent reader."""
    names = [column.name for column in columns]
    alone = sorted(uniqueness(raw, names), key=lambda pair: (len(pair[0]), -pair[1]))
    by_count = [[pair for pair in alone if len(pair[0]) == count][:MOST_SHOWN] for count in (1, 2, 3)]
    settings = plan.anonymity
    return {
        "schema": 2,
        "kind": "publication",
        "plan_sha256": plan.sha256,
        "link": settings.link,
        "asked": {"k": settings.k, "suppress": settings.suppress, **_asked(plan)},
        "found": {name: round(value, 6) for name, value in found.items()},
        "suppressed_people": 5 * round(shown.suppressed / 5),
        "generalised": dict(shown.facts),
        "loss": {
            "mean": round(shown.loss(columns), 4),
            "columns": {name: round(value, 4) for name, value in shown.losses.items()},
            "discernibility": discernibility(shown.labels, shown.rows),
        },
        "unique_before": {
            "all": round(unique_people(raw), 3),
            "most_telling": [
                {"columns": list(which), "share": round(share, 3)} for part in by_count for which, share in part
            ],
        },
        "columns": {name: _became(column) for name, column in plan.columns.items()},
        "limits": list(LIMITS),
    }


def _asked(plan: Plan) -> dict[str, float]:
    keys = ("distinct_l", "entropy_l", "t")
    sensitive = plan.of(Sensitive).items()
    return {
        f"{name}.{key}": getattr(one, key) for name, one in sensitive for key in keys if getattr(one, key) is not None
    }


def _became(column: Any) -> str:
    if isinstance(column, Keep):
        return f"kept: {column.reason}"
    if isinstance(column, Pseudonym):
        return f"pseudonym ({column.mode}, epoch {column.epoch})"
    if isinstance(column, Quasi):
        return f"generalised ({column.hierarchy.kind})"
    if isinstance(column, Sensitive) and (column.distinct_l or column.entropy_l):
        return f"sensitive, as it was; l counts spellings once{' and empty cells' * column.count_missing}"
    return {"drop": "dropped", "sensitive": "sensitive, as it was", "target": "target, as it was"}[column.action]


def formulas(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """What is to be said of cells that a spreadsheet runs; nothing where there is none."""
    texts = (text for name, cells in columns.items() for text in (name, *cells))
    many = sum(text[:1] in "=+-@\t\r" and as_number(text) is None for text in texts if text)
    warning = "may be run as formulas by a spreadsheet, for they begin with =, +, - or @: import them as text."
    return [f"{counted(many, 'cell')} {warning}"] if many else []
