"""The independent reader: k, l and t counted again from the file that was written.

It shares nothing with the search but the plan: it groups the very texts of the file, with dictionaries, and no code,
sum or class of the publisher reaches it.
"""

from __future__ import annotations

import csv
import importlib
import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.edge_runtime.util.validate import counted
from edgeveil.trainer.ext.publish.actions import Pseudonym, Quasi, Sensitive
from edgeveil.trainer.ext.publish.levels import ANY, GONE, Hierarchy, normal, place_of, rungs_of
from edgeveil.trainer.ext.publish.master_key import Cipher, MasterKey, Scope, padded
from edgeveil.trainer.ext.publish.plan import Plan
from edgeveil.trainer.ext.publish.vault import Vault

Person = Hashable


def found(path: Path, plan: Plan, people: Sequence[Person]) -> dict[str, float]:
    """``k`` and, for each that is asked, ``NAME.distinct_l``, ``.entropy_l`` and ``.t`` of the worst class in a file.

    ``people`` says whose each written row is, where no pseudonym in the file does.
    """
    return measured(columns_of([path]), plan, people)


def measured(columns: Mapping[str, Sequence[str]], plan: Plan, people: Sequence[Person]) -> dict[str, float]:
    """The same of columns that were read."""
    linked = plan.anonymity.link == "person"
    whose: Sequence[Person] = columns[str(plan.anonymity.people)] if linked else people
    classes = alike([columns[name] for name in plan.of(Quasi)], whose, linked=linked)
    worst = {"k": float(min(map(len, classes), default=0))}
    for name, criterion in plan.of(Sensitive).items():
        forms = _forms(columns[name], criterion)
        values = {person: forms[cell] for person, cell in zip(whose, columns[name], strict=True)}  # one of each
        groups = [Counter(values[person] for person in group) for group in classes]
        worst |= {f"{name}.{key}": value for key, value in _worst(groups, Counter(values.values()), criterion).items()}
    return worst


def _forms(cells: Sequence[str], criterion: Sensitive) -> dict[str, str]:
    """The one spelling of each value, in which the hierarchy has it."""
    if criterion.hierarchy is None:
        return {cell: normal(cell) for cell in set(cells)}
    return {cell: rungs[0][0] if rungs else cell for cell, rungs in rungs_of(criterion.hierarchy, set(cells)).items()}


def alike(shown: Sequence[Sequence[str]], whose: Sequence[Person], *, linked: bool) -> list[set[Person]]:
    """Who looks like whom by the columns ``shown``: by all of a person's rows where they are ``linked``."""
    classes: dict[Hashable, set[Person]] = defaultdict(set)
    if not linked:
        for row, person in zip(zip(*shown, strict=True), whose, strict=True):
            classes[row].add(person)
        return [*classes.values()]
    records: dict[Person, list[tuple[str, ...]]] = defaultdict(list)
    for row, person in zip(zip(*shown, strict=True), whose, strict=True):
        records[person].append(row)
    for person, held in records.items():
        classes[tuple(sorted(held))].add(person)
    return [*classes.values()]


def columns_of(paths: Sequence[Path], names: Sequence[str] | None = None) -> dict[str, list[str]]:
    """The columns of files, one after the other, as text; all of them, or those of ``names``."""
    read = [_columns(path, names) for path in paths]
    return {name: [cell for columns in read for cell in columns[name]] for name in (read[0] if read else names or ())}


def require(plan: Plan, measured: Mapping[str, float]) -> None:
    """Raise ``LimitNotMet`` where the file has less than the plan asks for."""
    if measured["k"] < plan.anonymity.k:
        raise LimitNotMet(
            f"What was written has k = {measured['k']:.0f} and the plan asks for {plan.anonymity.k}: {_END}"
        )
    for name, criterion in plan.of(Sensitive).items():
        for key in ("distinct_l", "entropy_l"):
            least = getattr(criterion, key)
            if least is not None and measured[f"{name}.{key}"] < least - 1e-6:
                raise LimitNotMet(f'"{name}" has {key} = {measured[f"{name}.{key}"]:.4g}, not {least:g}: {_END}')
        if criterion.t is not None and measured[f"{name}.t"] > criterion.t + 1e-6:
            raise LimitNotMet(f'"{name}" has t = {measured[f"{name}.t"]:.4g}, not {criterion.t:g}: {_END}')


_END = "nothing was published. This is a fault of the program; report it with the plan."


def _columns(path: Path, names: Sequence[str] | None) -> dict[str, list[str]]:
    if path.suffix == ".parquet":
        parquet = importlib.import_module("pyarrow.parquet")
        table = parquet.read_table(path, columns=None if names is None else list(names)).to_pydict()
        return {name: ["" if one is None else str(one) for one in column] for name, column in table.items()}
    with path.open(encoding="utf-8", newline="") as file:
        header, *lines = csv.reader(file)
    return {name: [line[at] for line in lines] for at, name in enumerate(header) if names is None or name in names}


def _worst(groups: Sequence[Counter[str]], everyone: Counter[str], criterion: Sensitive) -> dict[str, float]:
    worst: dict[str, float] = {}
    counts = [Counter({v: n for v, n in group.items() if v != GONE or criterion.count_missing}) for group in groups]
    if criterion.distinct_l is not None:
        worst["distinct_l"] = float(min(map(len, counts), default=0))
    if criterion.entropy_l is not None:
        worst["entropy_l"] = min((math.exp(_entropy(group)) for group in counts), default=0.0)
    if criterion.t is not None:
        worst["t"] = max((_distance(group, everyone, criterion) for group in groups), default=1.0)
    return worst


def _entropy(group: Counter[str]) -> float:
    return -sum(n / group.total() * math.log(n / group.total()) for n in group.values())


def _distance(group: Counter[str], everyone: Counter[str], criterion: Sensitive) -> float:
    extra = {value: group[value] / group.total() - everyone[value] / everyone.total() for value in everyone}
    if criterion.distance == "equal" or criterion.hierarchy is None:
        return sum(map(abs, extra.values())) / 2
    if criterion.distance == "ordered":
        return _ordered(extra, criterion.hierarchy)
    return _hierarchical(extra, criterion.hierarchy)


def _ordered(extra: Mapping[str, float], hierarchy: Hierarchy) -> float:
    """Work to move the extra along a line of equal steps, over its length."""
    places = sorted({place_of(hierarchy, value) for value in extra}, key=lambda place: place)
    total = moved = 0.0
    for place in places[:-1]:
        total += sum(more for value, more in extra.items() if place_of(hierarchy, value) == place)
        moved += abs(total)
    return moved / max(len(places) - 1, 1)


def _hierarchical(extra: Mapping[str, float], hierarchy: Hierarchy) -> float:
    """Work to move the extra within the smallest groups first; a move in a group costs its height over the tree's."""
    rungs = rungs_of(hierarchy, extra)
    flow = {tuple(label for label, _ in rungs[value] or []): more for value, more in extra.items()}
    height, cost = len(next(iter(flow))) - 1, 0.0
    for level in range(1, height + 1):
        above: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for path, more in flow.items():
            above[path[1:]].append(more)
        cost += level / height * sum(min(_part(many), _part(-one for one in many)) for many in above.values())
        flow = {path: sum(many) for path, many in above.items()}
    assert set(flow) == {(ANY,)}  # noqa: S101 - every hierarchy ends there
    return cost


def _part(values: Iterable[float]) -> float:
    return sum(max(value, 0.0) for value in values)


# The columns of pseudonyms of a publication: each distinct identifier is encrypted once.


@dataclass(frozen=True)
class Pseudonyms:
    """``columns`` (published rows,) of text, and the salts of the vault that each scope holds now."""

    columns: Mapping[str, Sequence[str]]
    salts: Mapping[Scope, Sequence[bytes]]


def require_vault(plan: Plan, vault: object) -> None:
    """Raise ``BadInput`` where the plan asks for a vault and there is none, or the reverse."""
    vaulted = [name for name, one in plan.of(Pseudonym).items() if one.mode == "vault"]
    if vaulted and vault is None:
        raise BadInput(
            f'"{vaulted[0]}" has mode = "vault": name the vault with --vault; it is made where there is none.'
        )
    if not vaulted and vault is not None:
        raise BadInput('A vault was given and no column of the plan has mode = "vault": leave out --vault.')


def pseudonymise(
    plan: Plan, names: Mapping[str, Sequence[str]], key: MasterKey, recipient: str, vault: Vault | None
) -> Pseudonyms:
    """Pseudonyms of normalised ``names`` (published rows,), column by column; within a change of the vault."""
    columns: dict[str, Sequence[str]] = {}
    salts: dict[Scope, Sequence[bytes]] = {}
    for name, action in plan.of(Pseudonym).items():
        scope = Scope(recipient, action.field or name, action.epoch)
        cipher = Cipher(key, scope)
        distinct = list(dict.fromkeys(names[name]))
        if action.mode == "vault" and vault is not None:
            vault.normalise_as(scope.field, action.normalise)
            salts[scope] = vault.salts(scope.field, distinct)
            sealed = dict(zip(distinct, map(cipher.seal, salts[scope]), strict=True))
        else:
            sealed = {one: cipher.seal(padded(one)) for one in distinct}
        columns[name] = [sealed[one] for one in names[name]]
    return Pseudonyms(columns, salts)


def salts_of(plan: Plan, paths: Sequence[Path], key: MasterKey, recipient: str) -> dict[Scope, set[bytes]]:
    """The salts of the vault whose pseudonyms stand in files."""
    salts = {}
    for name, one in plan.of(Pseudonym).items():
        if one.mode == "vault":
            scope = Scope(recipient, one.field or name, one.epoch)
            cipher = Cipher(key, scope)
            salts[scope] = {cipher.open(cell) for cell in set(columns_of(paths, [name])[name])}
    return salts


def require_known(vault: Vault, salts: Mapping[Scope, set[bytes]]) -> None:
    """Raise ``BadInput`` where some of the people in the parts were erased since they were made."""
    gone = sum(not vault.knows(salt) for held in salts.values() for salt in held)
    if gone:
        raise BadInput(
            f"{counted(gone, 'person was', 'people were')} erased since this publication was begun: nothing was "
            "published. Take their rows and frames away, and publish the rest anew."
        )
