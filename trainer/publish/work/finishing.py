"""The end of a publication: what it says of itself, signed, and ``publication.json`` last."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.formats.plurals import counted
from edgeveil.trainer.pseudonyms.master_key import MasterKey
from edgeveil.trainer.pseudonyms.pseudonym import Cipher, Scope
from edgeveil.trainer.pseudonyms.vault import Publication, Vault
from edgeveil.trainer.publish import reader
from edgeveil.trainer.publish.actions import Pseudonym, Quasi
from edgeveil.trainer.publish.plan import Plan
from edgeveil.trainer.publish.work import exactly_once
from edgeveil.trainer.publish.work.resuming import DOCUMENT, WORK
from edgeveil.trainer.report.publication import card_html, card_markdown

CARDS = {"card.html": card_html.render, "publication.md": card_markdown.text}
KIND, FORMAT, SIGNED = "publication", 1, "publication.signed.json"
_FROM_STATEMENT = ("generalised", "loss", "unique_before", "columns", "limits")


class Signer(Protocol):
    """The maker's key."""

    def envelope(self, kind: str, document: Mapping[str, Any]) -> bytes:
        """A document in a signed envelope of that kind."""


def document(
    plan: Plan,
    said: Mapping[str, Any],
    parts: Sequence[Mapping[str, Any]],
    found: Mapping[str, float],
    *,
    suppressed: int,
    **facts: Any,
) -> dict[str, Any]:
    """``publication.json``. ``said`` is the table's statement, ``found`` of the independent reader."""
    asked = plan.anonymity
    return {
        "format": FORMAT,
        "kind": KIND,
        "plan_sha256": plan.sha256,
        **facts,
        "rows": sum(part["rows"] for part in parts),
        "anonymity": {
            "link": asked.link,
            "people": asked.people if asked.link == "person" else None,
            "quasi": list(plan.of(Quasi)),
            "asked": said["asked"],
            "found": {name: round(value, 6) for name, value in found.items()},
            "suppressed": 5 * round(suppressed / 5),
        },
        "statement": {name: said[name] for name in _FROM_STATEMENT},
        "parts": list(parts),
    }


def salts_of(plan: Plan, paths: Sequence[Path], key: MasterKey, recipient: str) -> dict[Scope, set[bytes]]:
    """The salts of the vault whose pseudonyms stand in the parts."""
    found = {}
    for name, one in plan.of(Pseudonym).items():
        if one.mode == "vault":
            scope = Scope(recipient, one.field or name, one.epoch)
            cipher = Cipher(key, scope)
            found[scope] = {cipher.open(cell) for cell in set(reader.columns_of(paths, [name])[name])}
    return found


def require_known(vault: Vault, salts: Mapping[Scope, set[bytes]]) -> None:
    """Raise ``BadInput`` where some of the people in the parts were erased since they were made."""
    gone = sum(not vault.knows(salt) for held in salts.values() for salt in held)
    if gone:
        raise BadInput(
            f"{counted(gone, 'person was', 'people were')} erased since this publication was begun: nothing was "
            f"published. Take their rows and "
            "frames away, and publish the rest anew."
        )


def finish(
    out: Path,
    said: Mapping[str, Any],
    signer: Signer,
    vault: Vault | None,
    salts: Mapping[Scope, set[bytes]],
    *,
    publication: str,
) -> dict[str, Any]:
    """Write the cards, sign, have the vault note who was sent what, and give the publication its name; then clear the
    work away. Returns ``publication.json``, with the cards.

    The vault comes first, and knows the ``publication`` as one under way until then: after a crash it knows of too
    much, never of too little.
    """
    work = out / WORK
    cards = {name: exactly_once.make(out / name, work, card(said).encode()) for name, card in CARDS.items()}
    said = {**said, "cards": [{"name": name, "sha256": digest} for name, digest in cards.items()]}
    text = json.dumps(said, indent=1, sort_keys=True, allow_nan=False).encode() + b"\n"
    exactly_once.make(out / SIGNED, work, signer.envelope(KIND, said))
    title = hashlib.sha256(text).hexdigest()
    if vault is not None and not vault.has(title):
        with vault.change():
            vault.record({Publication(title, scope): sorted(held) for scope, held in salts.items()})
            vault.under_way.done(publication)
    exactly_once.make(out / DOCUMENT, work, text)
    shutil.rmtree(work)
    return said
