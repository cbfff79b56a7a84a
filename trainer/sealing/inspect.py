"""A verified bundle and its privacy card, as text and as JSON. Nothing unverified is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.bundle.board_state import signers_of
from edgeveil.edge_runtime.bundle.reader import Bundle, read_bundle
from edgeveil.edge_runtime.bundle.trust_file import AUDITOR
from edgeveil.edge_runtime.bundle.trust_store import open_trust
from edgeveil.edge_runtime.errors import BadInput, BundleRefused, shown
from edgeveil.edge_runtime.manifest.manifest import Manifest, expected
from edgeveil.edge_runtime.manifest.schema import NO_MODEL
from edgeveil.edge_runtime.signing.keys import Key
from edgeveil.edge_runtime.util import strict_json
from edgeveil.trainer.audit.verdict import words
from edgeveil.trainer.report.card_page import as_lines, brief_lines
from edgeveil.trainer.sealing.seal import checked_card

NOT_AUDITED = "not audited: no one has measured what it leaks"
DEVELOPMENT = "DEVELOPMENT BUNDLE, signed by a throw-away key. Anyone may have it. Not for real data."


@dataclass(frozen=True)
class View:
    """A verified bundle. ``whole``: show what it is, not only that it is verified; ``full``: every line of it.

    ``auditors``: whom the trust names as such; any key may have countersigned. ``card`` is formed from the audit; None
    where there is none that this version can read.
    """

    bundle: Bundle
    signer: Key
    whole: bool
    full: bool = False
    auditors: tuple[Key, ...] = ()
    card: Mapping[str, Any] | None = None

    def document(self) -> dict[str, Any]:
        """The content of ``text``, for JSON."""
        manifest = self.bundle.manifest
        document = {
            "verified": True,
            "name": manifest.name,
            "development": self.bundle.development,
            "signer": {"key": self.bundle.key, "name": self.signer.name},
            "manifest_sha256": self.bundle.manifest_sha256,
            "audited": sorted(manifest.privacy.speaks_of),
            "not_audited": self._not_audited(),
            "countersigned_by": [{"key": key, "name": name} for key, name in self._countersigners()],
        }
        if self.whole:
            document["manifest"] = manifest.document
            name = manifest.privacy.file
            document["audit"] = None if name is None else strict_json.loads(self.bundle.members[name])
            document["card"] = self.card
        return document

    def text(self) -> str:
        """For a terminal, without control characters."""
        body = (self._body if self.full else self._brief) if self.whole else tuple
        lines = [*self._head(), *body()]
        return shown("\n".join(line.replace("\n", "?") for line in lines))

    def _head(self) -> Iterator[str]:
        manifest, members = self.bundle.manifest, self.bundle.members
        if self.bundle.development:
            yield f"*** {DEVELOPMENT} ***"
        yield f"{manifest.name}: signature, manifest and all {len(members)} members verified"
        yield f"signed by {self.signer.name}, key {self.bundle.key}"
        if manifest.privacy.file is None:
            yield NOT_AUDITED
        elif not self.whole and self.bundle.audit is not None:
            yield f"audit: {words(self.bundle.audit)}"

    def _brief(self) -> Iterator[str]:
        """What it is, what is sent and what its card says first: with the head at most 25 lines."""
        manifest = self.bundle.manifest
        perturber, source = manifest.perturber, manifest.input
        leaves = [f"{output.name} {_shape(output.shape)} {output.dtype}" for output in manifest.outputs]
        variants = ", ".join(manifest.preference) or NO_MODEL
        boards = ", ".join(manifest.document["profiles"]) or "no board by name"
        yield ""
        yield f"  perturber  {perturber.kind}: meant to keep {perturber.target} and to hide {perturber.sensitive}"
        yield f"  sensor     {source.sensor or 'any that gives such frames'}: {_frames(manifest)}"
        yield f"  leaves     {', '.join(leaves)}"
        yield f"  variants   {variants}, for {boards}"
        yield f"  made       {self._made()}"
        if manifest.privacy.card is not None:
            yield ""
            yield from self._card(brief_lines)
        yield "All of it, every member and measurement: --full"

    def _made(self) -> str:
        manifest = self.bundle.manifest
        audience = f"for {manifest.audience} alone" if manifest.audience else "for anyone"
        return f"{manifest.created} by edgeveil {manifest.document['provenance']['edgeveil']}, {audience}"

    def _body(self) -> Iterator[str]:
        manifest = self.bundle.manifest
        perturber, source = manifest.perturber, manifest.input
        yield ""
        yield f"  perturber  {perturber.kind}: meant to keep {perturber.target} and to hide {perturber.sensitive}"
        yield f"  input      {source.kind} {_shape(source.shape)} {source.dtype}"
        stages = (f"{one.stage} {one.model or one.distribution or one.op}".rstrip() for one in manifest.stages)
        yield f"  stages     {' -> '.join(stages)}"
        for output in manifest.outputs:
            yield f"  leaves     {output.name} ({output.kind}) {_shape(output.shape)} {output.dtype}"
        for name, model in manifest.models.items():
            variants = ", ".join(model.artefacts)
            yield f"  model      {name}: {model.macs:,} MACs, {model.parameters:,} parameters; {variants}"
        if manifest.preference:
            yield f"  preferred  {', '.join(manifest.preference)}"
        for name, profile in manifest.document["profiles"].items():
            yield f"  board      {name}: {', '.join(profile['artefacts']) or NO_MODEL}"
        yield f"  made       {self._made()}"
        yield f"  security   version {manifest.security_version}"
        yield ""
        yield from self._card(as_lines)
        yield ""
        yield f"  {'bytes':>10}  {'SHA-256':64}  member"
        for member in manifest.members:
            yield f"  {member.size:>10}  {member.sha256}  {member.name}"

    def _card(self, told: Callable[[Any], Iterator[str]]) -> Iterator[str]:
        if self.bundle.audit is None:
            yield f"privacy card: {NOT_AUDITED}"
            return
        yield f"privacy card, measured on {', '.join(self.bundle.manifest.privacy.speaks_of)}"
        if self.bundle.manifest.privacy.countersignature is not None and not self._countersigners():
            yield "  its countersignature is NOT VALID"
        for key, name in self._countersigners():
            yield f"  countersigned by {name or 'a key that is no auditor in this trust'}, key {key}"
        try:
            yield from told(self.card)
        except (LookupError, TypeError, ValueError, AttributeError):
            yield "  its audit is in a form that this version cannot show; --json has it unchanged"
        if self._not_audited():
            yield f"  NOT audited: {', '.join(self._not_audited())}"

    def _countersigners(self) -> list[tuple[str, str | None]]:
        """Keys that validly signed the audit, with the names of those that are auditors and not the maker."""
        names = {key.key: key.name for key in self.auditors if key.key != self.bundle.key}
        try:
            signers = signers_of(self.bundle.manifest, self.bundle.members)
        except BundleRefused:
            return []
        return [(key, names.get(key)) for key in signers]

    def _not_audited(self) -> list[str]:
        models = self.bundle.manifest.models.values()
        variants = {variant for model in models for variant in model.artefacts} or {NO_MODEL}
        return sorted(variants - set(self.bundle.manifest.privacy.speaks_of))


def inspect(bundle: Path, trust: Path, *, full: bool = False) -> View:
    """Verify a bundle and show what it is, ``full`` all of it.

    Raises as ``read_bundle`` and ``open_trust`` do, and ``BundleRefused`` for a card that is not of its audit.
    """
    view = verify(bundle, trust)
    card = None
    try:
        card = checked_card(view.bundle)
    except BundleRefused:
        raise
    except BadInput:  # the text says that there is none to show
        pass
    return replace(view, card=card, whole=True, full=full)


def verify(bundle: Path, trust: Path) -> View:
    """Verify a bundle and show that it is sound. Raises as ``read_bundle`` and ``open_trust`` do."""
    trusted = open_trust(trust)
    opened = read_bundle(bundle, trusted)
    revoked, auditors = trusted.revoked, trusted.roles[AUDITOR].keys
    named = tuple(key for key in auditors if key.key not in revoked)
    return View(opened, trusted.key_of(opened.key), whole=False, auditors=named)


def _frames(manifest: Manifest) -> str:
    """What the sensor gives, and what becomes of it where that is another shape."""
    source, frame = manifest.input, expected(manifest.input, manifest.capture)
    taken = f"{source.kind} {_shape(source.shape)} {source.dtype}"
    given = f"{frame['kind']} {_shape(frame['shape'])} {frame['dtype']}"
    return taken if given == taken else f"{given}, made {taken}"


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "one a frame"
