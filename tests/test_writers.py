"""What a writer finds under the name it writes to: only a file makes room for a file.

Every way by which the product writes to a name that it was given meets a device, a pipe, a socket, a link and a folder
there. None may be gone afterwards, and none may be taken for a file.
"""

import ast
import os
import re
import signal
import stat

import numpy as np
import pytest

from edgeveil.devices.zipapp import build_zipapp
from edgeveil.edge_runtime.errors import EdgeVeilError
from edgeveil.edge_runtime.ext.ledger import book
from edgeveil.edge_runtime.frames import _PIPELINE, PerturbedFrame
from edgeveil.edge_runtime.ipc import pipes
from edgeveil.edge_runtime.manifest.manifest import Output
from edgeveil.edge_runtime.sinks import open_sink
from edgeveil.edge_runtime.util.atomic import write_atomic
from edgeveil.trainer import results
from edgeveil.trainer.audit import document
from edgeveil.trainer.export import folder as export_folder
from edgeveil.trainer.ext.publish import publication
from edgeveil.trainer.ext.publish.vault import VaultFile
from edgeveil.trainer.report import card_page
from edgeveil.trainer.runs.run import Run
from tests.support import import_graph
from tests.support.checkout import ROOT


def sink(kind, shape):
    def write(path):
        shown = [Output("frame", "frame", "x_out", shape, "uint8", None)]
        opened = open_sink(f"{kind}:{path}", shown)
        opened.write(PerturbedFrame(0, {"frame": np.zeros(shape, np.uint8)}, _PIPELINE))
        opened.close()

    return write


def write_pairs(path, monkeypatch):
    monkeypatch.setattr(card_page, "render_pairs", lambda _: "new")
    card_page.write_pairs_report({}, path.parent)


def lock(path):
    with results.locked(path.with_name("out"), "train"):
        pass


def make_publication(path):
    with publication._whole(path) as made:
        (made / "table.csv").write_text("new")


class Fitted:
    """What a run keeps of a perturber."""

    def save(self, folder):
        (folder / "perturber.json").write_text("new")


def vault(path):
    VaultFile(path).base.close()


def charge(path):
    book.Ledger(str(path), machine=lambda: "here")


# Of each writer, the name that it writes to, and how it is called.
FILES = {
    "write": ("out", lambda path: write_atomic(path, b"new")),
    "write, and keep the old": ("out", lambda path: write_atomic(path, b"new", keep_old=True)),
    "csv sink": ("out.csv", sink("csv", (4,))),
    "npz sink": ("out.npz", sink("npz", (4,))),
    "video sink": ("out.avi", sink("video", (4, 4, 1))),
    "ledger new": ("out", lambda path: book.create(str(path), machine=lambda: "here")),
    "ledger": ("out", charge),
    "lock": (".out.lock", lock),
    "audit": ("audit.json", lambda path: document.save({"artefact": "tflite-int8"}, path.parent)),
    "vault": ("out", vault),
    "frames' pipe": (pipes.NAME, lambda path: os.close(pipes.make_for_inside(str(path.parent)))),
    "pairs' document": ("audit.json", write_pairs),
    "pairs' page": ("report.html", write_pairs),
    "zipapp": ("out.pyz", build_zipapp),
}
FOLDERS = {
    "set aside": ("out", results.set_aside),
    "countersignature": ("countersignature.json", lambda path: document.save({"artefact": "onnx"}, path.parent)),
    "images sink": ("out", sink("images", (4, 4, 1))),
    "export": ("out", lambda path: export_folder.write(path, {}, {"net.tflite": b"new"}, {})),
    "publication": ("out", make_publication),
    "perturber of a run": ("perturber", lambda path: Run(path.parent, None, {}).save_perturber(Fitted())),
}
MINE = {("frames' pipe", "pipe"), ("perturber of a run", "folder")}  # an old one of its own makes room
INTO = {("csv sink", "pipe"), ("csv sink", "device")}


def device(path, _):
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))  # one of our own like /dev/null
    except PermissionError:
        pytest.skip("root may make devices")


def link(path, behind):
    behind.write_bytes(b"old")
    path.symlink_to(behind)


def folder(path, _):
    path.mkdir()
    (path / "kept").write_bytes(b"old")


KINDS = {
    "device": device,
    "pipe": lambda path, _: os.mkfifo(path),
    "socket": lambda path, _: os.mknod(path, 0o600 | stat.S_IFSOCK),
    "link": link,
    "dangling link": lambda path, behind: path.symlink_to(behind),
    "folder": folder,
}


@pytest.fixture(autouse=True)
def no_waiting():
    """A pipe without a writer would be read for ever."""

    def stop(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def facts(path):
    found = path.lstat()
    return found.st_ino, found.st_mode, found.st_rdev, found.st_nlink


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("writer", [*FILES, *FOLDERS])
def test_only_a_file_makes_room(tmp_path, monkeypatch, writer, kind):
    if (writer, kind) in MINE:
        pytest.skip("its own")
    name, write = {**FILES, **FOLDERS}[writer]
    path, behind = tmp_path / "here" / name, tmp_path / "behind" / "file"
    for each in (path.parent, behind.parent, tmp_path / "receipts"):
        each.mkdir()
    KINDS[kind](path, behind)
    before = facts(path)
    if kind == "pipe":
        end = os.open(path, os.O_RDWR | os.O_NONBLOCK)  # so that nothing waits to open the other one
    error = None
    try:
        write(path, monkeypatch) if write is write_pairs else write(path)
    except EdgeVeilError as raised:
        error = raised
    there = {one.relative_to(tmp_path).as_posix(): one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()}
    if kind == "folder":  # it stays, or keeps what is in it under a dated name
        assert b"old" in there.values()
        assert writer in FOLDERS or facts(path) == before
    else:
        assert facts(path) == before
    if kind == "pipe" and (writer, kind) in INTO:
        assert os.read(end, 100) == b"0,0,0,0\n"
    if kind == "link" and error is None:
        assert there["behind/file"] != b"old"
    elif kind == "link":
        assert there["behind/file"] == b"old"
    elif kind == "dangling link":
        assert not behind.exists()
    if error is None:
        assert (writer, kind) in INTO or kind == "link" or (kind == "folder" and writer in FOLDERS)
        return
    assert (writer, kind) not in INTO
    assert error.exit_code == 2
    assert str(path.parent) in str(error) or str(behind) in str(error)
    assert "\n" not in str(error)
    assert {one for one in there if "receipts" not in one} <= {f"here/{name}", f"here/{name}/kept", "behind/file"}


def test_a_link_of_another_user_is_not_followed(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("root may give a link away")
    behind, path = tmp_path / "behind", tmp_path / "out"
    link(path, behind)
    os.lchown(path, 12345, 12345)
    with pytest.raises(EdgeVeilError, match="out: it is a link that another user made"):
        write_atomic(path, b"new")
    assert behind.read_bytes() == b"old"


def test_a_pipe_that_comes_meanwhile_is_left(tmp_path):
    opened = open_sink(f"csv:{tmp_path}/out", [Output("x", "vector", "x_out", (4,), "uint8", None)])
    os.mkfifo(tmp_path / "out")
    with pytest.raises(EdgeVeilError, match="out: it is a pipe"):
        opened.close()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# Calls that give a name to something else, outside storage/atomic.py, which looks first.
RENAMES = {
    "edge_runtime/util/atomic.py": "the one place that looks first",
    "edge_runtime/util/filesystem.py": "the store of releases, root's alone: its links are replaced on purpose",
    "edge_runtime/ipc/pipes.py": "a new pipe in place of its own old one, and it looks first",
    "devices/agents/unpack_wheels.py": "runs alone on a board, in root's folder of releases",
    "edge_runtime/releases/try_settings.py": "runs alone on a board, with copies that it made in root's folders",
    "devices/agents/boot_from_card.py": "runs alone on a board, before a runtime is there",
    "devices/flashing/sd_card.py": "a card, by descriptors and without following a link",
}


def renames(text):
    """The lines that call ``os.rename`` and its like, or ``Path.rename`` and ``Path.replace``."""
    for node in ast.walk(ast.parse(text)) if re.search(r"\.(rename|replace|renames|move)\b", text) else ():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
        of_a_path = len(node.args) == 1 and not node.keywords  # str.replace has two
        if (owner, node.func.attr) in {("os", "rename"), ("os", "replace"), ("os", "renames"), ("shutil", "move")} or (
            node.func.attr in {"rename", "replace"} and of_a_path
        ):
            yield node.lineno


def test_nothing_else_renames():
    roots = [ROOT / root for root in import_graph.ROOTS]
    found = {
        path.relative_to(ROOT).as_posix()
        for root in roots
        for path in root.rglob("*.py")
        if any(renames(path.read_text()))
    }
    assert found == set(RENAMES)


@pytest.mark.parametrize(
    "call", ["os.rename(a, b)", "os.replace(a, b)", "shutil.move(a, b)", "a.rename(b)", "Path(a).replace(b)"]
)
def test_a_rename_is_found(call):
    assert list(renames(call)) == [1]
    assert not list(renames("text.replace('a', 'b'), time.replace(microsecond=0), disk.rename(a, b)"))


# A draft must not be there, a point of a sweep is not computed again, and its picture is named by what it shows.
NEW = ("draft(", "_path(out, task)", "write_atomic(folder / name, data)")


def test_results_that_are_there_are_kept():
    places = [one for folder in ("cli", "report", "ext/sweep") for one in (ROOT / "trainer" / folder).glob("*.py")]
    nodes = [node for path in places for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    calls = [ast.unparse(node) for node in nodes if getattr(node.func, "id", "") == "write_atomic"]
    assert [one for one in calls if "keep_old=True" not in one and not any(name in one for name in NEW)] == []
    assert len(calls) > 6
