"""Recordings and their table published for one recipient: three passes, each to be gone on with, and a signed end."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import Any

from edgeveil.edge_runtime import __version__
from edgeveil.edge_runtime.errors import BadInput, LimitNotMet, PrivacyStop
from edgeveil.trainer.pseudonyms.master_key import MasterKey
from edgeveil.trainer.pseudonyms.vault import Vault
from edgeveil.trainer.publish import table_files
from edgeveil.trainer.publish.pseudonymise import require_vault
from edgeveil.trainer.publish.work import exactly_once, finishing
from edgeveil.trainer.publish.work.archive import fingerprint, fingerprint_of_file, open_frames, uri_of
from edgeveil.trainer.publish.work.passes import row_table
from edgeveil.trainer.publish.work.passes.first_pass import FirstPass
from edgeveil.trainer.publish.work.passes.frame_passes import FramePasses
from edgeveil.trainer.publish.work.perturbing import Opened
from edgeveil.trainer.publish.work.rest_of_archive import draw_statistics, rest_of_archive
from edgeveil.trainer.publish.work.resuming import WORK, State, begin, require_same, require_unused
from edgeveil.trainer.publish.work.second_release import Drawn, paid
from edgeveil.trainer.publish.work.wanted import Wanted
from edgeveil.trainer.results import locked

CHUNK_BYTES, MOST_ROWS, FEWEST_ROWS = 16 << 20, 8192, 16


def publish_archive(
    wanted: Wanted, key: MasterKey, signer: finishing.Signer, vault: Vault | None = None
) -> dict[str, Any]:
    """Write the parts, their cards and ``publication.json``, whose content is returned.

    Raises ``BadInput``: then nothing is written and the vault is as it was. ``LimitNotMet`` where too many frames were
    dropped, the parts have less than the plan asks for, or attacks may learn more than it allows, ``BadInput`` where
    what was written cannot be attacked, and ``PrivacyStop``: then all that was written is gone, and the vault is as it
    was. What else breaks it off (Ctrl-C, a full disk, workers that die) is gone on with by ``resume``.
    """
    if not wanted.recipient.strip():
        raise BadInput("A recipient was expected; the name is empty. One publication has one recipient.")
    if wanted.jobs < 1 or (wanted.chunk_rows or 1) < 1:
        raise BadInput("Jobs and rows of a chunk were expected to be 1 or more. Correct them.")
    require_vault(wanted.plan, vault)
    table_files.pyarrow()
    uri = uri_of(wanted.recordings)
    opened = Opened.of(wanted.bundle, wanted.trust, artefact=wanted.artefact)
    with opened.perturber:
        opened.require_audit(unaudited=wanted.unaudited)
        with open_frames(uri, opened.manifest) as source:
            opened.require_fit(source)
    with locked(wanted.out, "publish archive"):
        return _Publishing(wanted, key, signer, vault, opened, uri).done()


class _Publishing:
    """One publication under way."""

    def __init__(
        self, wanted: Wanted, key: MasterKey, signer: finishing.Signer, vault: Vault | None, opened: Opened, uri: str
    ) -> None:
        self._wanted, self._key, self._signer, self._vault = wanted, key, signer, vault
        self._opened, self._uri = opened, uri
        self._work = wanted.out / WORK
        self._drawn = Drawn(wanted.key)
        self._chunk_rows = wanted.chunk_rows or min(
            max(CHUNK_BYTES // max(opened.frame_bytes, 1), FEWEST_ROWS), MOST_ROWS
        )

    def done(self) -> dict[str, Any]:
        wanted = self._wanted
        state = self._state()
        if wanted.resume:
            state = require_same(wanted.out, state)
        else:
            require_unused(wanted.out)
        with open_frames(self._uri, self._opened.manifest) as source:
            first = FirstPass.of(wanted.plan, table_files.read(wanted.table), source, self._opened.outputs)
        rows = self._work / row_table.NAME
        if exactly_once.made(rows, self._work) is None:
            self._write(first, state)
        passes = FramePasses(wanted, self._opened, self._uri)
        try:
            document = passes.worked(recipient=wanted.recipient, archive=state["archive"])
        except (LimitNotMet, PrivacyStop):
            self._undo(state)
            raise
        try:
            document |= rest_of_archive(first, passes, self._opened, self._uri, self._work)
            salts = finishing.salts_of(wanted.plan, passes.paths, self._key, wanted.recipient)
            if self._vault is not None:
                finishing.require_known(self._vault, salts)
        except (LimitNotMet, BadInput):  # a plan that cannot be attacked is mended, and then it is another one
            self._undo(state)
            raise
        return finishing.finish(wanted.out, document, self._signer, self._vault, salts, publication=state["id"])

    def _state(self) -> State:
        wanted, derive = self._wanted, self._key.derive
        return {
            "plan": wanted.plan.sha256,
            "table": fingerprint_of_file(wanted.table, derive),
            "archive": fingerprint(self._uri, derive),
            "bundle": self._opened.bundle.manifest_sha256,
            "artefact": self._opened.perturber.artefact,
            "recipient": wanted.recipient,
            "key": derive("publication key", size=16).hex(),
            "chunk_rows": self._chunk_rows,
            "version": __version__,
            "id": os.urandom(8).hex(),
        }

    def _write(self, rows: FirstPass, state: State) -> None:
        """What pass 1 makes; where it fails, all is as it was, but for what a ledger was charged."""
        wanted, opened = self._wanted, self._opened
        price, spending = opened.perturber.price, opened.manifest.spending
        if opened.draws:
            self._drawn.claim(state["archive"], state["id"], again=wanted.again)
        try:
            begin(wanted.out, state)
            draw_statistics(rows, self._work)  # first: a statistic that cannot be is found before a ledger is charged
            may = paid(wanted.ledger, price, "" if spending is None else spending.unit, rows.people())
            rows.write(
                self._work,
                self._key,
                wanted.recipient,
                self._vault,
                paid=may,
                chunk_rows=self._chunk_rows,
                archive=state["archive"],
                publication=state["id"],
            )
        except BaseException:
            self._undo(state)
            raise

    def _undo(self, state: State) -> None:
        """Take away what was written, and out of the vault who came into it: nobody had it."""
        if self._vault is not None:
            self._vault.under_way.withdraw(state["id"])
        shutil.rmtree(self._work, ignore_errors=True)
        for name in ("part-*.parquet", finishing.SIGNED, *finishing.CARDS):
            for path in self._wanted.out.glob(name):
                path.unlink()
        with suppress(OSError):
            self._wanted.out.rmdir()
        if self._opened.draws:
            self._drawn.forget(state["id"])
