"""The register of bad bundles: each exhibit is one function that builds one, and the word it must be refused with."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edgeveil.edge_runtime.bundle.reader import signature_member, signed_message
from edgeveil.edge_runtime.bundle.trust_file import Trust
from edgeveil.edge_runtime.signing.keys import Key
from tests.hostile_bundles.raw_zip import Entry
from tests.support import bundles

Built = bytes | tuple[bytes, Trust]


@dataclass(frozen=True)
class Exhibit:
    """``build`` returns the bytes of a bad bundle, with a trust of its own where the ordinary one does not show it."""

    name: str
    reason: str
    build: Callable[[], Built]

    def bundle(self) -> tuple[bytes, Trust]:
        built = self.build()
        return built if isinstance(built, tuple) else (built, bundles.trust())


EXHIBITS: dict[str, Exhibit] = {}


def exhibits(by: Callable[..., Built] | None, *rows: tuple[str, str, Callable[..., Any]]) -> None:
    """Register builders, each after its reason and its name; with ``by`` they are what that function takes."""
    for reason, name, build in rows:
        if name in EXHIBITS:
            raise ValueError(f"two exhibits are called {name}")
        EXHIBITS[name] = Exhibit(name, reason, build if by is None else functools.partial(by, build))


def exhibit(reason: str) -> Callable[[Callable[[], Built]], Callable[[], Built]]:
    """Register a builder of several lines under its own name."""

    def register(build: Callable[[], Built]) -> Callable[[], Built]:
        exhibits(None, (reason, build.__name__, build))
        return build

    return register


def good() -> tuple[bundles.Manifest, bundles.Members]:
    """A good manifest, with its list of members, and these members."""
    manifest, members = bundles.artefact_example()
    return bundles.with_members(manifest, members), members


def good_bytes() -> bytes:
    return bundles.sealed(*good())


def entries(manifest: bundles.Manifest | bytes | None = None, members: bundles.Members | None = None) -> list[Entry]:
    """The members of a bundle with a true signature, ready to be packed by a writer that lies."""
    if manifest is None:
        manifest, members = good()
    data = manifest if isinstance(manifest, bytes) else json.dumps(manifest, sort_keys=True).encode()
    signature = signature_member(bundles.public_hex(bundles.KEY), bundles.KEY.sign(signed_message(data)))
    named = [("manifest.json", data), ("signature.json", signature), *sorted((members or {}).items())]
    return [Entry(name.encode(), content) for name, content in named]


def signed_text(text: str | bytes) -> bytes:
    """A bundle whose manifest is this text, truly signed, beside the members of the good one."""
    data = text.encode() if isinstance(text, str) else text
    return bundles.sealed(data, good()[1])


def changed(change: Callable[[Any], object], *, example: Any = None) -> bytes:
    """A truly signed bundle whose manifest was changed before signing; members are listed as they are."""
    manifest, members = example or bundles.artefact_example()
    manifest = bundles.with_members(manifest, members)
    change(manifest)
    return bundles.sealed(manifest, members)


def key_named(public: str, *, development: bool = False) -> Trust:
    """A trust that was made to believe in this key, past the check that a trust folder makes."""
    return Trust([Key(public, "hostile", development)])
