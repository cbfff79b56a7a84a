"""The same on an arm64 kernel, in the virtual board; and what holds where qemu's user emulation runs an arm64 program.

That emulation knows no filter and no Landlock, and no process in it has a single thread: the runtime says so.
"""

import json
import os
import re

import pytest

from edgeveil.devices.zipapp import zipapp_bytes
from tests.security.taken_over import GUARDS, NOBODY, WITHOUT_NAMESPACES
from tests.support import bundles
from tests.support.boards import emulated_boards
from tests.support.checkout import ROOT

pytestmark = [pytest.mark.boards, pytest.mark.slow, pytest.mark.programs]

PLACE = "/srv/taken-over"
ASK = """
import json, sys
sys.path[:0] = [{place!r}, {place!r} + "/edge.pyz"]
from edgeveil.edge_runtime.sandbox import landlock
from tests.security import taken_over
more = {{"python": sys.executable, "path": {place!r} + "/edge.pyz", **{more!r}}}
found = taken_over.service({place!r}, {place!r} + "/test.veil", {place!r} + "/trust", **more)
print(json.dumps([*found, landlock.version()]))
"""


@pytest.fixture(scope="module")
def virtual_board():
    if "EDGEVEIL_VIRTUAL_BOARD" not in os.environ:
        pytest.skip("THE VIRTUAL BOARD WAS NOT BOOTED: it takes minutes; set EDGEVEIL_VIRTUAL_BOARD=1 for it")
    with emulated_boards.board("vm") as up:
        yield up


@pytest.fixture(scope="module")
def userland():
    with emulated_boards.board("userland") as up:
        yield up


@pytest.fixture
def service(tmp_path):
    """Asks a board: exit code, frames, what was gained, the last error, the version of Landlock."""
    made = bundles.make_bundle(tmp_path, example=bundles.numpy_example())
    files = {"edge.pyz": zipapp_bytes(), "test.veil": made.path.read_bytes()}
    files["trust/test.pub"] = (made.trust / "test.pub").read_bytes()
    for name in ("tests/security/attacks.py", "tests/security/taken_over.py"):
        files[name] = (ROOT / name).read_bytes()
    has_it = []

    def ask(board, **more):
        if board not in has_it:
            board.unpack(files, PLACE)
            has_it.append(board)
        return json.loads(board.run("python3 -", data=ASK.format(place=PLACE, more=more).encode()).stdout)

    return ask


def means(said):
    return re.search(r'"isolation": "([^"]*)"', said)[1]


def test_nothing_is_gained_and_each_guard_is_one(virtual_board, service):
    record = {"kernel": virtual_board.run("uname -r").stdout.decode().strip(), "isolation": {}, "guards": {}}
    for user in (None, NOBODY):
        for namespaces in (True, False):
            case = f"{'an ordinary user' if user else 'root'}, {'with' if namespaces else 'without'} namespaces"
            first = "" if namespaces else WITHOUT_NAMESPACES
            code, frames, gained, said, version = service(virtual_board, first=first, user=user)
            assert gained is not None, said
            known_open = set() if version else {"a secret that anyone may read", "passwords"}
            assert {name: what for name, what in gained.items() if name not in known_open} == {}, case
            assert (code, frames) == (0, 3), said
            record["isolation"][case], record["landlock"] = means(said), version
    for guard, (first, expected) in GUARDS.items():
        if guard == "Landlock" and not version:
            continue
        user = NOBODY if guard.endswith("(ordinary user)") else None
        _, _, gained, said, _ = service(virtual_board, first=first, user=user)
        assert gained is not None, said
        assert expected <= set(gained), (guard, said)
        record["guards"][guard] = sorted(gained)
    emulated_boards.record("taken-over-arm64.json", record)


@pytest.mark.nightly  # by day a run without a filter: test_isolation.py
def test_under_user_emulation_the_runtime_claims_no_filter(userland, service):
    code, frames, gained, said, version = service(userland)
    assert (code, frames, version) == (0, 3, 0), said
    # The emulator has a thread of its own, so that the process cannot be cut off; it is not root all the same.
    assert means(said) == "by convention only"
    assert not {"a user that is root", "capabilities", "its terminal", "a file of root's"} & set(gained)
