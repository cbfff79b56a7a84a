"""A publication checked by its recipient, with the maker's public key alone: who signed it, what it is, and its k."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from edgeveil.edge_runtime.bundle.trust_file import MAKER
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.util import strict_json
from edgeveil.trainer.ext.publish import reader, table_files
from edgeveil.trainer.ext.publish.publishing import CARDS, DOCUMENT, FORMATS, KIND, SIGNED

_PART = re.compile(r"part-[0-9]{5}\.parquet")


def verify_publication(folder: Path, trust: Path) -> dict[str, Any]:
    """What was checked: ``recipient``, ``rows``, ``parts``, ``k`` and what it counts, and the names of its ``cards``.

    Raises ``BundleRefused`` with the reason: ``untrusted-key``, ``revoked-key``, ``bad-signature``,
    ``another-document``, ``unknown-format``, ``missing-part``, ``swapped-part``, ``changed-part``, ``extra-file``,
    ``missing-card``, ``changed-card``, ``too-few-alike`` and those of an envelope; ``BadInput`` where there is no
    publication.
    """
    trusted = open_trust(trust)
    signed = trusted.unwrap(KIND, _read(folder / SIGNED), MAKER)
    try:
        shown = strict_json.loads(_read(folder / DOCUMENT))
    except strict_json.BadJson:
        shown = None
    if shown != signed:
        _refuse("another-document", f"{DOCUMENT} does not say what was signed")
    if not isinstance(signed, dict) or signed.get("format") not in FORMATS or signed.get("kind") != KIND:
        _refuse("unknown-format", f"it is no publication of format {' or '.join(map(str, FORMATS))}")
    try:
        paths = _check_parts(folder, signed["parts"])
        counted = {"recipient": signed["recipient"], "rows": signed["rows"], "parts": len(paths)}
        return {**counted, **_alike(paths, signed), "cards": _check_cards(folder, signed["cards"])}
    except (LookupError, TypeError, AttributeError):
        _refuse("unknown-format", "it lacks what a publication says")


def _check_parts(folder: Path, parts: list[Mapping[str, Any]]) -> list[Path]:
    by_hash = {part["sha256"]: part["name"] for part in parts}
    for part in parts:
        if not _PART.fullmatch(part["name"]):
            _refuse("unknown-format", "a part has the name of something else")
        try:
            digest = hashlib.sha256((folder / part["name"]).read_bytes()).hexdigest()
        except OSError:
            _refuse("missing-part", f"{part['name']} cannot be read")
        if digest != part["sha256"]:
            if digest in by_hash:
                _refuse("swapped-part", f"{part['name']} is {by_hash[digest]}")
            _refuse("changed-part", f"{part['name']} is not what was signed")
    known = {SIGNED, DOCUMENT, *(part["name"] for part in parts)}
    for path in sorted(folder.glob("*.parquet")):
        if path.name not in known:
            _refuse("extra-file", f"{path.name} is none of the parts that were signed")
    return [folder / part["name"] for part in parts]


def _check_cards(folder: Path, cards: list[Mapping[str, Any]]) -> list[str]:
    """Their names. A card that somebody changed would say of signed parts what its maker never said."""
    names = [card["name"] for card in cards]
    if names != list(CARDS):
        _refuse("unknown-format", f"its cards are not {' and '.join(CARDS)}")
    for card in cards:
        try:
            data = (folder / card["name"]).read_bytes()
        except OSError:
            _refuse("missing-card", f"{card['name']} cannot be read")
        if hashlib.sha256(data).hexdigest() != card["sha256"]:
            _refuse("changed-card", f"{card['name']} is not what was signed")
    return names


def _alike(paths: list[Path], signed: Mapping[str, Any]) -> dict[str, Any]:
    """k, counted again. Of rows that nothing links, different people cannot be told: rows are counted there."""
    table_files.pyarrow()
    anonymity = signed["anonymity"]
    linked = anonymity["link"] == "person"
    columns = reader.columns_of(paths, [*anonymity["quasi"], *([anonymity["people"]] if linked else [])])
    whose = columns[anonymity["people"]] if linked else range(len(columns[anonymity["quasi"][0]]))
    if len(whose) != signed["rows"]:
        _refuse("changed-part", f"it has {len(whose)} rows and {signed['rows']} were signed")
    k = min(map(len, reader.alike([columns[name] for name in anonymity["quasi"]], whose, linked=linked)), default=0)
    if k < anonymity["asked"]["k"]:
        _refuse("too-few-alike", f"k is {k} and it promises {anonymity['asked']['k']:g}")
    return {"k": k, "counted": "people" if linked else "rows"}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(
            f"{path} cannot be read: {error.strerror}. Name the folder that edgeveil publish archive wrote."
        ) from None


def _refuse(reason: str, what: str) -> NoReturn:
    raise BundleRefused(reason, f"The publication is refused: {what}. Get it again from its maker.")
