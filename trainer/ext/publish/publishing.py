"""Recordings and their table published for one recipient: the frames in chunks, the table's publisher, a signed end.

All of it but the frames, the statistics and the attack is the same when it is done again, so a resumed run keeps these
three and makes the rest anew. Nothing is published until ``publication.json`` is there. Next to the master key is a
list, of keyed hashes, of what was published by bundles that draw: twice reveals more.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime import __version__
from edgeveil.edge_runtime.errors import BadInput, FrameDropped, LimitNotMet, PrivacyStop
from edgeveil.edge_runtime.ext.ledger.book import Ledger
from edgeveil.edge_runtime.frames import Subject
from edgeveil.edge_runtime.manifest.manifest import Price
from edgeveil.edge_runtime.pipeline.crops import Capture
from edgeveil.edge_runtime.util.atomic import atomic_path, write_atomic, writing
from edgeveil.trainer.datasets.columns import Cells
from edgeveil.trainer.ext.publish import plan as statement
from edgeveil.trainer.ext.publish import reader, recordings, table_files
from edgeveil.trainer.ext.publish.actions import Quasi, Sensitive, drawn_once
from edgeveil.trainer.ext.publish.attack import rest_of_statement
from edgeveil.trainer.ext.publish.frames import FRAMES, ROW, Opened, Wanted, perturbed
from edgeveil.trainer.ext.publish.generalise import Generalised
from edgeveil.trainer.ext.publish.master_key import MasterKey, Scope
from edgeveil.trainer.ext.publish.plan import Frames, Plan
from edgeveil.trainer.ext.publish.publication import Prepared, published_columns, row_order
from edgeveil.trainer.ext.publish.reader import pseudonymise, require_known, require_vault, salts_of
from edgeveil.trainer.ext.publish.recordings import open_frames
from edgeveil.trainer.ext.publish.vault import Publication, Vault
from edgeveil.trainer.report import card_markdown
from edgeveil.trainer.results import locked
from edgeveil.trainer.sealing.keys import Signer

WORK, STATE, DOCUMENT, SUFFIX = "work", "state.json", "publication.json", ".drawn"
State = dict[str, Any]


def begin(out: Path, state: State) -> None:
    """Make the folder and its work folder, and write the state of the run there."""
    with writing(out):
        (out / WORK).mkdir(parents=True, exist_ok=True)
    write_atomic(out / WORK / STATE, json.dumps(state, sort_keys=True).encode())


def begun(out: Path, state: State) -> State:
    """The state of the publication that was interrupted there, or ``state`` where the folder is new or empty.

    Raises ``BadInput`` where it was of other inputs, and where the folder holds anything else.
    """
    if not (out / WORK / STATE).is_file():
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise BadInput(f"{out} is not empty: a publication is never written over another. Give another folder.")
        return state
    try:
        was: State = json.loads((out / WORK / STATE).read_bytes())
    except (OSError, ValueError):
        raise BadInput(f"{out / WORK / STATE} cannot be read. Give another folder.") from None
    for name in state.keys() - {"id"}:
        if was.get(name) != state[name]:
            raise BadInput(
                f"Cannot resume {out}: the {name} has changed. Use the original {name}, or give another folder."
            )
    return was


class Drawn:
    """The list next to a key. ``archive`` is the fingerprint of the recordings, ``publication`` that of the folder."""

    def __init__(self, key: Path) -> None:
        self._path = key.with_name(key.name + SUFFIX)

    def claim(self, archive: str, publication: str, *, again: bool) -> None:
        """Note a publication before its first draw. Raises ``BadInput`` for a second one, unless ``again``."""
        entry = {"archive": archive, "publication": publication}
        with self._changed() as listed:
            if any(one["archive"] == archive for one in listed if one != entry) and not again:
                raise BadInput(
                    "These recordings were published before by a bundle that draws: a second time reveals more of "
                    "them. Add --accept again if you want that."
                )
            listed[:] = [one for one in listed if one != entry] + [entry]

    def forget(self, publication: str) -> None:
        """Take out one whose frames were deleted before they were sent."""
        with self._changed() as listed:
            listed[:] = [one for one in listed if one["publication"] != publication]

    @contextmanager
    def _changed(self) -> Iterator[list[dict[str, str]]]:
        with locked(self._path, "publish archive"):
            try:
                listed = json.loads(self._path.read_bytes()) if self._path.exists() else []
            except (OSError, ValueError):
                raise BadInput(
                    f"{self._path} cannot be read: take your copy. It lists what was published before."
                ) from None
            yield listed
            write_atomic(self._path, json.dumps(listed).encode(), mode=0o600)


def paid(ledger: Path | None, price: Price | None, unit: str, people: Sequence[int | None]) -> list[bool]:
    """Charge for every row (``people``: whose it is) and return which are paid for; all, where nothing is promised.

    Raises ``BadInput`` without a ledger, ``LimitNotMet`` where the whole machine's account has too little left: then
    nothing is charged.
    """
    if price is None:
        if ledger is not None:
            raise BadInput("A ledger was given, and this bundle promises nothing to count: leave out --ledger.")
        return [True] * len(people)
    if ledger is None:
        raise BadInput("This bundle counts its releases: name the ledger with --ledger (edgeveil-edge ledger new).")
    opened = Ledger(str(ledger))
    units = [None if unit == "release" else one for one in people]
    wanted = Counter(units)
    left = min(most for most, _ in opened.left(price.limits)) // price.micro_epsilon
    if wanted[None] > left:
        raise LimitNotMet(
            f"The ledger has {left} releases left and {wanted[None]} were asked for: nothing was charged."
        )
    may = Counter(opened.charge(dict(wanted), *price).paid)
    payable = []
    for one in units:
        payable.append(may[one] > 0)
        may[one] -= 1
    return payable


CHUNK_BYTES, MOST_ROWS, FEWEST_ROWS = 16 << 20, 8192, 16
PSEUDONYMS, REST, DRAWN = "pseudonyms.json", "rest.json", "statistics.json"  # of the work folder
CARDS = {"card.html": card_markdown.render, "publication.md": card_markdown.text}
KIND, FORMATS, SIGNED = "publication", (1, 2), "publication.signed.json"  # 1: the bins of a histogram by their names
_FROM_STATEMENT = ("generalised", "loss", "unique_before", "columns", "limits")


def publish_archive(wanted: Wanted, key: MasterKey, signer: Signer, vault: Vault | None = None) -> dict[str, Any]:
    """Write the parts, their cards and ``publication.json``, whose content is returned.

    Raises ``BadInput``: then nothing is written and the vault is as it was. ``LimitNotMet`` where too many frames were
    dropped, the parts have less than the plan asks for, or attacks may learn more than it allows, ``BadInput`` where
    what was written cannot be attacked, and ``PrivacyStop``: then all that was written is gone, and the vault is as it
    was. A run that ends otherwise (Ctrl-C, a full disk, workers that die) is continued by the same call.
    """
    if not wanted.recipient.strip():
        raise BadInput("A recipient was expected; the name is empty. One publication has one recipient.")
    if wanted.jobs < 1 or (wanted.chunk_rows or 1) < 1:
        raise BadInput("Jobs and rows of a chunk were expected to be 1 or more. Correct them.")
    require_vault(wanted.plan, vault)
    table_files.pyarrow()
    uri = recordings.uri_of(wanted.recordings)
    opened = Opened.of(wanted.bundle, wanted.trust)
    with opened.perturber:
        opened.require_audit(unaudited=wanted.unaudited)
        opened.require_fit(uri)
    with locked(wanted.out, "publish archive"):
        return _Publishing(wanted, key, signer, vault, opened, uri).run()


class _Publishing:
    """One publication. ``self._frame`` (table rows,) is the number of each row's frame."""

    def __init__(
        self, wanted: Wanted, key: MasterKey, signer: Signer, vault: Vault | None, opened: Opened, uri: str
    ) -> None:
        self._wanted, self._key, self._signer, self._vault = wanted, key, signer, vault
        self._opened, self._uri, self._plan = opened, uri, wanted.plan
        self._drawn = Drawn(wanted.key) if any(one.stage == "draw" for one in opened.manifest.stages) else None
        self._out, self._work = wanted.out, wanted.out / WORK
        self._chunk_rows = wanted.chunk_rows or min(max(CHUNK_BYTES // opened.records.itemsize, FEWEST_ROWS), MOST_ROWS)

    def run(self) -> dict[str, Any]:
        """Everything, or what is not done yet."""
        state = begun(self._out, self._state())
        prepared, shown = self._prepared()
        rows = np.flatnonzero(shown.rows)
        rows = rows[np.argsort(self._frame[rows])]
        if not (self._work / FRAMES).exists():
            self._begin(prepared, rows, state)
        final: tuple[type[Exception], ...] = (LimitNotMet, PrivacyStop)
        try:
            chunks = self._perturbed(len(rows))
            final = (*final, BadInput)  # a plan that cannot be met is changed, and then it is another one
            document, salts = self._made(prepared, shown, rows, chunks, state)
        except final:
            self._undo(state)
            raise
        return self._finish(document, salts, publication=state["id"])

    def _perturbed(self, rows: int) -> list[Path]:
        most = int(_frames_of(self._plan).most_dropped * rows)
        given = self._wanted, self._opened, self._work, self._uri
        return perturbed(*given, rows=rows, chunk_rows=self._chunk_rows, most_dropped=most)

    def _state(self) -> State:
        derive = self._key.derive
        return {
            "plan": self._plan.sha256,
            "table": recordings.fingerprint(derive("table"), f"file:{self._wanted.table}"),
            "archive": recordings.fingerprint(derive("recordings"), self._uri),
            "bundle": self._opened.bundle.manifest_sha256,
            "artefact": self._opened.perturber.artefact,
            "recipient": self._wanted.recipient,
            "key": derive("publication key", size=16).hex(),
            "chunk size": self._chunk_rows,
            "EdgeVeil version": __version__,
            "id": os.urandom(8).hex(),
        }

    def _prepared(self) -> tuple[Prepared, Generalised]:
        """The table as it may be published if no frame is dropped. Raises ``BadInput``; nothing is written."""
        plan = self._plan
        key = _frames_of(plan).key
        prepared = Prepared.of(plan, table_files.read(self._wanted.table))
        added = {ROW, *(one.column for one in self._opened.outputs)}
        for name in plan.published:
            if name in added:
                raise BadInput(f'The column "{name}" has the name of a column that the bundle adds: rename it.')
        with open_frames(self._uri, self._opened.manifest) as source:
            self._frame = recordings.matched(prepared.cells[key], recordings.names_in(source), key)
        return prepared, prepared.generalised()

    def _begin(self, prepared: Prepared, rows: np.ndarray, state: State) -> None:
        """Draw the statistics, charge, and keep the pseudonyms of all ``rows`` and the frames that are paid for.

        The vault has everybody in it before a frame is perturbed, as people of a publication that may still come to
        nothing. Where this fails, all is as it was, but for what a ledger was charged.
        """
        wanted, opened, plan = self._wanted, self._opened, self._plan
        if self._drawn is not None:
            self._drawn.claim(state["archive"], state["id"], again=wanted.again)
        try:
            begin(self._out, state)
            # First: a statistic that cannot be is found before a ledger is charged.
            drawn_once(self._work / DRAWN, plan.statistics, prepared.cells, prepared.person, unit=plan.anonymity.unit)
            spending = opened.manifest.spending
            unit = "" if spending is None else spending.unit
            may = paid(wanted.ledger, opened.perturber.price, unit, _people(prepared, rows))
            with self._vault.change() if self._vault is not None else nullcontext():
                names = {name: [column[row] for row in rows] for name, column in prepared.names.items()}
                pseudonyms = pseudonymise(plan, names, self._key, wanted.recipient, self._vault)
                if self._vault is not None:
                    for scope, salts in pseudonyms.salts.items():
                        self._vault.under_way.note(state["id"], scope.field, salts)
            write_atomic(self._work / PSEUDONYMS, json.dumps(pseudonyms.columns).encode())
            with atomic_path(self._work / FRAMES) as temporary:  # last: these two are all that passes need
                np.save(temporary, np.where(may, self._frame[rows], -1))
        except BaseException:
            self._undo(state)
            raise

    def _made(
        self, prepared: Prepared, shown: Generalised, rows: np.ndarray, chunks: Sequence[Path], state: State
    ) -> tuple[dict[str, Any], dict[Scope, set[bytes]]]:
        """Everything but the end: ``publication.json``, and the salts of the vault whose pseudonyms are in it."""
        wanted, opened, plan = self._wanted, self._opened, self._plan
        place = np.full(len(prepared.person), -1)  # of each table row among the frames of all chunks
        arrived = np.concatenate([np.load(path, mmap_mode="r")[ROW] for path in chunks])
        place[rows[arrived]] = np.arange(len(arrived))
        if len(arrived) < len(rows):
            shown = _without_dropped(prepared, shown, place >= 0)
        order = row_order(self._key, wanted.recipient, f"{plan.text}{state['archive']}".encode(), len(place))
        order = order[shown.rows[order]]
        at = np.argsort(rows)[np.searchsorted(np.sort(rows), order)].tolist()  # of each among ``rows``
        stored = json.loads((self._work / PSEUDONYMS).read_bytes())
        pseudonyms = {name: [column[number] for number in at] for name, column in stored.items()}
        parts = self._write_parts(published_columns(prepared, shown, pseudonyms, order), place[order], chunks)
        paths = [self._out / part["name"] for part in parts]
        linking = [plan.anonymity.people] if plan.anonymity.link == "person" else []
        read = reader.columns_of(paths, [*plan.of(Quasi), *plan.of(Sensitive), *map(str, linking)])
        measures = reader.measured(read, plan, prepared.person[order].tolist())  # an independent reader
        reader.require(plan, measures)
        raw = statement.statement_document(prepared.frequencies(), plan, shown, measures, prepared.columns)
        document = {
            "format": FORMATS[-1],
            "kind": KIND,
            "plan_sha256": plan.sha256,
            "recipient": wanted.recipient,
            "archive": state["archive"],
            "pipeline_hash": opened.pipeline_hash(),
            "bundle": opened.facts(),
            "dropped": len(rows) - len(arrived),
            "frames": [{**one._asdict(), "shape": list(one.shape)} for one in opened.outputs],
            "rows": len(order),
            "anonymity": {
                "link": plan.anonymity.link,
                "people": plan.anonymity.people if plan.anonymity.link == "person" else None,
                "quasi": list(plan.of(Quasi)),
                "asked": raw["asked"],
                "found": raw["found"],
                "suppressed": raw["suppressed_people"],
            },
            "statement": {name: raw[name] for name in _FROM_STATEMENT},
            "parts": parts,
            **self._rest(prepared, shown, paths, order, pseudonyms),
        }
        salts = salts_of(plan, paths, self._key, wanted.recipient)
        if self._vault is not None:
            require_known(self._vault, salts)
        return document, salts

    def _write_parts(
        self, columns: Mapping[str, Sequence[str]], place: np.ndarray, chunks: Sequence[Path]
    ) -> list[dict[str, Any]]:
        """Write the rows with their frames, which are at ``place`` (rows,) of all chunks; returns the entry of each
        part."""
        table = table_files.arrow_table(columns)
        records = [np.load(path, mmap_mode="r") for path in chunks]
        begins = np.cumsum([0, *map(len, records)])
        entries: list[dict[str, Any]] = []
        for begin_at in range(0, len(place), self._chunk_rows):
            wanted = place[begin_at : begin_at + self._chunk_rows]
            chunk = np.searchsorted(begins, wanted, "right") - 1
            frames = np.empty(len(wanted), self._opened.records)
            for number in np.unique(chunk):
                here = chunk == number
                frames[here] = records[number][wanted[here] - begins[number]]
            path = self._out / f"part-{len(entries):05d}.parquet"
            outputs = {one.column: frames[one.column] for one in self._opened.outputs}
            table_files.write_part(path, table.slice(begin_at, len(wanted)), outputs)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            entries.append({"name": path.name, "sha256": digest, "rows": len(wanted)})
        return entries

    def _rest(
        self, prepared: Prepared, shown: Generalised, paths: Sequence[Path], order: np.ndarray,
        pseudonyms: Mapping[str, Sequence[str]],
    ) -> dict[str, Any]:  # fmt: skip
        """As ``rest_of_statement``, worked out once: an attack that learns may end otherwise a second time, and the
        signed statement must not change between two runs."""
        path = self._work / REST
        if not path.exists():
            rest = rest_of_statement(
                self._plan,
                prepared.cells,
                prepared.person,
                shown,
                paths,
                order,
                outputs=self._opened.outputs,
                records=self._records(prepared, order, pseudonyms),
                drawn=self._work / DRAWN,
            )
            write_atomic(path, json.dumps(rest, allow_nan=False).encode())
        return dict(json.loads(path.read_bytes()))

    def _records(
        self, prepared: Prepared, order: np.ndarray, pseudonyms: Mapping[str, Sequence[str]]
    ) -> Iterator[tuple[Hashable, bytes]]:
        """Whose each recording is, and its bytes as the bundle takes it.

        Linked people are called by their pseudonyms, as in the parts; all others, and those who were left out, by
        numbers.
        """
        settings, names = self._plan.anonymity, dict[int, str]()
        if settings.link == "person":
            names = dict(zip(prepared.person[order].tolist(), pseudonyms[str(settings.people)], strict=True))
        capture = Capture(self._opened.manifest)
        with open_frames(self._uri, self._opened.manifest) as source:
            for who in prepared.person[np.argsort(self._frame)].tolist():
                try:
                    frame = source.next()
                    if frame is None:
                        return
                    ((_, taken),) = capture.frames(frame)
                except FrameDropped:
                    continue
                data = taken._data
                yield names.get(who, who), data.astype(data.dtype.newbyteorder("<")).tobytes()

    def _finish(
        self, document: Mapping[str, Any], salts: Mapping[Scope, set[bytes]], *, publication: str
    ) -> dict[str, Any]:
        """Write the cards, sign, have the vault note who was sent what, and give the publication its name; then clear
        the work away. Returns ``publication.json``.

        The vault comes first, and has the ``publication`` as pending until then: after a crash it has too many notes,
        never too few.
        """
        cards = []
        for name, card in CARDS.items():
            data = card(document).encode()
            write_atomic(self._out / name, data)
            cards.append({"name": name, "sha256": hashlib.sha256(data).hexdigest()})
        signed = {**document, "cards": cards}
        text = json.dumps(signed, indent=1, sort_keys=True, allow_nan=False).encode() + b"\n"
        write_atomic(self._out / SIGNED, self._signer.envelope(KIND, signed))
        title = hashlib.sha256(text).hexdigest()
        if self._vault is not None and not self._vault.has(title):
            with self._vault.change():
                self._vault.record({Publication(title, scope): sorted(held) for scope, held in salts.items()})
                self._vault.under_way.done(publication)
        write_atomic(self._out / DOCUMENT, text)
        shutil.rmtree(self._work)
        return signed

    def _undo(self, state: State) -> None:
        """Delete what was written, and from the vault who came into it: it was sent to no one."""
        if self._vault is not None:
            self._vault.under_way.withdraw(state["id"])
        shutil.rmtree(self._work, ignore_errors=True)
        for name in ("part-*.parquet", SIGNED, *CARDS):
            for path in self._out.glob(name):
                path.unlink()
        with suppress(OSError):
            self._out.rmdir()
        if self._drawn is not None:
            self._drawn.forget(state["id"])


def _frames_of(plan: Plan) -> Frames:
    if plan.frames is None:
        raise BadInput(
            'The plan has no table [frames]: write one, with key = "COLUMN", the column that names the frame of a row, '
            "and most_dropped, the share of the frames that may be lost."
        )
    return plan.frames


def _people(prepared: Prepared, rows: np.ndarray) -> list[int | None]:
    """A number for whom a ledger charges for each row; None where the plan names no people."""
    whose = prepared.plan.anonymity.people
    if whose is None:
        return [None] * len(rows)
    names = prepared.names[whose]
    return [Subject.from_name(names[row]) for row in rows]


def _without_dropped(prepared: Prepared, shown: Generalised, present: np.ndarray) -> Generalised:
    """The table generalised again, of the rows that are ``present`` (mask, table rows) alone: who lost rows may look
    like fewer than k others. Raises ``LimitNotMet`` where the plan does not allow what that takes."""
    rows = np.flatnonzero(present)
    cells: Cells = {name: [column[row] for row in rows.tolist()] for name, column in prepared.cells.items()}
    try:
        again = Prepared.of(prepared.plan, cells).generalised(suppressed=shown.suppressed)
    except BadInput as error:
        raise LimitNotMet(f"Without the rows whose frames were dropped, nothing was published: {error}") from None
    mask = np.zeros(len(present), bool)
    mask[rows[again.rows]] = True
    return replace(again, rows=mask, suppressed=shown.suppressed + again.suppressed)
