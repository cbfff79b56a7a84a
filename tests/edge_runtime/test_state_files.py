"""What a board keeps in files: each has one reader, and one rule for what is missing, damaged or someone else's.

The table names them all. One test deletes, garbles, cuts, links, replaces by a pipe, a device, a folder or another
user's file, and fills, each of them: as the user whose folder it lies in, who may do all of it.
"""

import ast
import hashlib
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from edgeveil.edge_runtime import config
from edgeveil.edge_runtime.bundle.aims import Aims, begin, read_aims
from edgeveil.edge_runtime.bundle.board_state import read_state
from edgeveil.edge_runtime.bundle.index_seen import count_up, read_offered, read_seen, write_offered
from edgeveil.edge_runtime.bundle.trust_store import open_trust, update_policy
from edgeveil.edge_runtime.errors import EdgeVeilError
from edgeveil.edge_runtime.ext.ledger.book import Ledger, board_total, create
from edgeveil.edge_runtime.ipc.counters import page_at
from edgeveil.edge_runtime.ipc.pipes import make_pipe
from edgeveil.edge_runtime.releases.runtimes import Runtimes
from edgeveil.edge_runtime.releases.settings import BoardSettings, State, board_key, shown_key
from edgeveil.edge_runtime.releases.store import Releases
from edgeveil.edge_runtime.signing.envelope import wrap
from edgeveil.edge_runtime.signing.keys import public_key_line, read_public_key
from edgeveil.edge_runtime.sinks.spool import Segments
from edgeveil.edge_runtime.util import root_lock, strict_json
from tests.edge_runtime.bundle.signed_trust import device, policy_file, public, trust_file
from tests.support import bundles
from tests.support.checkout import ROOT

POLICY = {"schema": 1, "hide": [{"sensitive": "less-than-five", "audited": False, "most_attack_over_chance": None}]}
SHA = hashlib.sha256(b"x").hexdigest()  # of the runtime's file
OUTSIDE = 60001  # the user of the outside, whose folders these are
# What a reader may answer: the error of this file; what the other place holds; that nothing was there; anew, with
# nothing of what is there; and for a link of root's in root's folder, what it leads to.
REFUSED, SAME, NONE, ANEW = "refused", "the same", "none", "anew"


class Kept(NamedTuple):
    """A file by its path on the board; ``missing``, ``damaged`` and ``link`` are its rules, ``owner`` its folder's."""

    path: str
    read: Callable[[Path], object]
    missing: str = REFUSED
    damaged: str = REFUSED
    link: str = REFUSED
    owner: int = 0


def trusted(board):
    trust = open_trust(board / "opt" / "trust")
    return trust.version, trust.policy is not None


def locked(name, folder):
    def take(board):
        with root_lock.held(str(board / folder), "this test", name=name, wait_s=0):
            return "held"

    return take


def spooled(board):
    segments = Segments(str(board / "spool"))
    try:
        return [found.data for found in segments.found()]
    finally:
        segments.close()


def counted(board):
    total = board_total(str(board))["epsilon"]
    if total is None:
        with pytest.raises(EdgeVeilError):
            Ledger(str(board / "var/lib/edgeveil/ledger")).book()
        raise EdgeVeilError("unknown")
    return Ledger(str(board / "var/lib/edgeveil/ledger")).book()


def version(board):
    with Releases(str(board / "opt"), lambda _: None).changing("this test"):
        return Runtimes(str(board / "opt")).version(SHA)


def gone_back(board):
    current = board / "opt/runtime/current"
    current.unlink(missing_ok=True)
    with Releases(str(board / "opt"), lambda _: None).changing("this test"):
        return Runtimes(str(board / "opt")).go_back(open_trust(board / "opt/trust"))


def released(board):
    releases = Releases(str(board / "opt"), lambda floor: open_trust(board / "opt/trust", floor=floor))
    found = releases.read(str(releases.current))
    return found and found.manifest_sha256


def pulled(board):
    """Settings that came by an update, of a service whose configuration they are."""
    path = board / "etc/pulled.json"
    if not path.is_symlink():
        path.symlink_to(board / "opt/settings/3/edge.json")
    return BoardSettings(str(board / "opt"), str(path))


def seed(board):
    return pulled(board)._seed()


def page(board):
    handle = page_at(str(board / "run/counters"))
    try:
        return os.fstat(handle).st_size >= 16384
    finally:
        os.close(handle)


TABLE = [
    Kept("opt/trust/root.pub", trusted),
    Kept("opt/trust/trust.json", trusted),
    Kept("opt/trust/policy.json", trusted),
    Kept("opt/trust/policy-signed.json", trusted, missing=SAME),  # the policy stays in force
    Kept("opt/state.json", lambda board: read_state(str(board / "opt"))),
    Kept("opt/state-copy.json", lambda board: read_state(str(board / "opt")), missing=SAME),
    *(
        Kept(f"opt/{name}", lambda board: read_seen(str(board / "opt")), SAME, SAME, SAME)
        for name in ("index-seen.json", "index-seen-copy.json")
    ),
    Kept(
        "opt/index-offered.json", lambda board: read_offered(str(board / "opt")), NONE, NONE, NONE
    ),  # it is shown alone
    Kept("opt/releases/current/bundle.veil", released, NONE, NONE, NONE),  # it is no release: recover undoes it
    Kept(f"opt/runtime/{SHA}/runtime.json", version, missing=NONE),
    Kept(f"opt/runtime/{SHA}/edgeveil-edge.pyz", gone_back),
    Kept("var/lib/edgeveil/ledger", counted, missing=REFUSED, owner=OUTSIDE),
    *(
        Kept(f"{folder}/{name}", locked(name, folder), ANEW, ANEW)
        for folder, name in (("opt", "lock"), ("opt", "update.lock"), ("var/lib/edgeveil", "ledger.lock"))
    ),
    Kept("spool/000000000000.spool", spooled, ANEW, ANEW, ANEW, OUTSIDE),  # perturbed records: what is broken is lost
    Kept("spool/lock", spooled, SAME, ANEW, owner=OUTSIDE),
    Kept("run/counters", page, ANEW, ANEW, owner=OUTSIDE),
    Kept("run/records", lambda board: make_pipe(str(board / "run/records")), ANEW, owner=OUTSIDE),
    Kept("opt/board.key", seed),
    Kept("opt/board.pub", lambda board: shown_key(str(board / "opt")), NONE, NONE, SAME),  # it is shown, and made again
    Kept("opt/aims.json", lambda board: read_aims(str(board / "opt")), missing=ANEW),
    Kept("opt/settings/state.json", lambda board: pulled(board).state()),
    Kept("etc/edgeveil/edge.json", lambda board: config.read(str(board / "etc/edgeveil/edge.json")), link=SAME),
    Kept("keys/maker.pub", lambda board: read_public_key(board / "keys/maker.pub"), link=SAME),
]
DAMAGE = ("deleted", "garbled", "cut", "link", "dangling", "pipe", "device", "folder", "foreign", "full")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """All of the files, whole."""
    tmp_path = tmp_path_factory.mktemp("board")
    trust = device(tmp_path / "opt/trust", trust_file(1))
    umask = os.umask(0)
    update_policy(str(trust), policy_file(1, POLICY))
    releases = Releases(str(trust.parent), lambda floor: open_trust(trust, floor=floor))
    releases.install(bundles.make_bundle(tmp_path / "made").path.read_bytes(), lambda *_: None)
    (trust.parent / "releases/current").symlink_to(str(releases.current))
    count_up(str(trust.parent))
    write_offered(str(trust.parent), SHA)
    os.umask(umask)
    board_key(str(trust.parent))
    begin(str(trust.parent), 300, 5.0)
    (trust.parent / "settings/3").mkdir(parents=True)
    state = strict_json.dumps(dict(State(3, 3)._asdict(), schema=1))
    (trust.parent / "settings/state.json").write_bytes(state)
    note = {"schema": 1, "bytes": 1, "version": 3, "name": "edge", "sha256": SHA}
    runtime = tmp_path / "opt/runtime" / SHA
    runtime.mkdir(parents=True)
    key = public("root")
    (runtime / "runtime.json").write_bytes(wrap(strict_json.dumps(note), key.key, b"0" * 64))
    (runtime / "edgeveil-edge.pyz").write_bytes(b"x")
    (runtime.parent / "previous").symlink_to(SHA)
    for folder in ("etc/edgeveil", "var/lib/edgeveil", "run", "keys"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/edgeveil/edge.json").write_text('{"threads": 2}')
    (tmp_path / "keys/maker.pub").write_text(public_key_line(bundles.trusted()))
    create(str(tmp_path / "var/lib/edgeveil/ledger"))
    segments = Segments(str(tmp_path / "spool"))
    segments.append(b"perturbed", 1.0)
    segments.close()
    for one in TABLE:
        if one.path != "run/records":
            (tmp_path / one.path).touch()
    return tmp_path


def test_no_other_user_may_write_to_any_of_it(made):
    others = ("root.pub", "trust.json", "runtime")  # which this file made, and not the product
    mine = [path for path in (made / "opt").rglob("*") if not set(others) & set(path.parts) and not path.is_symlink()]
    assert {path.name for path in mine} >= {"state.json", "index-seen.json", "policy.json", "bundle.veil", "releases"}
    assert [path for path in mine if path.stat().st_mode & 0o022] == []


@pytest.fixture(scope="module")
def whole_of():
    """What each reader answers of the whole file."""
    return {}


@pytest.fixture
def board(made, tmp_path):
    """A copy of them, each folder with its user."""
    shutil.copytree(made, tmp_path, symlinks=True, dirs_exist_ok=True)
    make_pipe(str(tmp_path / "run/records"))
    for one in TABLE if os.geteuid() == 0 else ():
        for path in (tmp_path / one.path, (tmp_path / one.path).parent) if one.owner else ():
            os.chown(path, one.owner, one.owner)
    return tmp_path


def damage(path, how, owner):
    """Do that to the file at ``path``, as its folder's owner."""
    whole = path.with_name("whole")
    path.rename(whole)
    if how in ("garbled", "cut", "foreign") and whole.is_file():
        data = whole.read_bytes()
        path.write_bytes({"garbled": b"\xff{" + data[2:], "cut": data[: len(data) // 2], "foreign": data}[how])
    elif how in ("garbled", "cut", "foreign"):
        path.write_bytes(b"no pipe")
    elif how == "link":
        path.symlink_to(whole)
    elif how == "dangling":
        path.symlink_to(path.with_name("nothing"))
    elif how == "pipe":
        os.mkfifo(path)
    elif how == "device":
        path.symlink_to("/dev/zero")
    elif how == "folder":
        path.mkdir()
    elif how == "full":
        path.touch()
        os.truncate(path, 2**33)
    if os.path.lexists(path) and os.geteuid() == 0:
        user = OUTSIDE + 1 if how == "foreign" else owner
        os.chown(path, user, user, follow_symlinks=False)


def answer(kept, board):
    """What the reader answers within seconds: a word for each rule it can follow."""

    def late(*_):
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(8)
    try:
        return kept.read(board)
    except EdgeVeilError:
        return REFUSED
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def allowed(kept, how, whole):
    """The answers that the rule of the table allows."""
    if how == "deleted":
        rule = kept.missing
    elif how == "link":
        rule = kept.link
    else:
        rule = kept.damaged
    if how == "pipe" and kept.path == "run/records":
        return [whole]
    return {REFUSED: [REFUSED], SAME: [whole], NONE: [None, 0], ANEW: [REFUSED, whole, [], True, None, Aims()]}[rule]


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("kept", TABLE, ids=lambda kept: kept.path)
def test_what_is_missing_damaged_or_someone_elses_is_neither_new_nor_ones_own(board, whole_of, kept, how):
    if how == "foreign" and os.geteuid() != 0:
        pytest.skip("ONLY ROOT can give a file to another user")
    if kept.path not in whole_of:
        whole_of[kept.path] = answer(kept, board)
    whole = whole_of[kept.path]
    assert whole != REFUSED
    damage(board / kept.path, how, kept.owner)
    assert answer(kept, board) in allowed(kept, how, whole)


# Modules that open files of other kinds themselves, and why.
OTHERS = {
    "config.py": "a descriptor that was given to it",
    "bundle/reader.py": "a bundle at any path, which it checks in the same way",
    "releases/index.py": "what an update server sent, and a folder on a stick",
    "releases/confinement.py": "folders to mount, and /proc",
    "releases/runtimes.py": "what it writes for a trial",
    "releases/try_settings.py": "copies that it made in root's folder; it runs alone, too",
    "util/root_lock.py": "the lock, which it writes",
}


def test_nothing_else_opens_them():
    found = set()
    for part in ("bundle", "releases", "ext/ledger", "signing", "util/root_lock.py", "config.py"):
        place = ROOT / "edge_runtime" / part
        for path in place.rglob("*.py") if place.is_dir() else [place]:
            for call in [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]:
                if ast.unparse(call.func) in ("open", "os.open", "io.open"):
                    found.add(str(path.relative_to(ROOT / "edge_runtime")))
    assert found == set(OTHERS)
