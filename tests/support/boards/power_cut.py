"""A disk that writes down what is done to it, and every state in which a power cut may leave what it wrote down.

The model is harsher than any file system here. A file's bytes are safe after ``sync`` of it, a name after
``sync_folder`` of its folder; until then any part of what was done may be on the disk or not, in any combination. Of
bytes that were not synced any beginning may be there, or rubbish of the same length.
"""

from __future__ import annotations

import os
import random
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from edgeveil.edge_runtime.util.filesystem import Filesystem

Operation = tuple  # (name of the method, its arguments)


class WrittenDown(Filesystem):
    """The real disk, with a log; ``stop_after`` operations it raises ``Killed``, as a process that was killed."""

    def __init__(self, stop_after: int | None = None, *, log: list[Operation] | None = None, turn=lambda: None) -> None:
        self.log: list[Operation] = [] if log is None else log
        self.stop_after, self.turn = stop_after, turn

    def __getattribute__(self, name: str):
        method = object.__getattribute__(self, name)
        if name not in OPERATIONS:
            return method

        def call(*arguments):
            log = self.log
            self.turn()
            if self.stop_after is not None and len(log) >= self.stop_after:
                raise Killed
            log.append((name, *arguments))
            # Within a run it makes no difference: only what the log says of it does.
            return None if name in ("sync", "sync_folder") else method(*arguments)

        return call


OPERATIONS = ("write", "sync", "sync_folder", "make_folder", "link", "rename", "remove", "remove_folder")


class WrittenDownOs:
    """``os`` for ``edge_runtime.storage.atomic``: writes down what it does, on the disk of the thread that does it."""

    def __init__(self) -> None:
        self.here = threading.local()

    def __getattr__(self, name: str):
        return getattr(os, name)

    def fsync(self, handle):
        path = Path(f"/proc/self/fd/{handle}").readlink()
        if path.is_dir():
            self._note("sync_folder", str(path))
            return
        # A file is written before it is synced, and under no name that anything reads.
        self._note("write", str(path), path.read_bytes())
        self._note("sync", str(path))

    def replace(self, old, new):
        self._note("rename", old, new)
        Path(old).replace(new)

    def _note(self, *operation) -> None:
        disk = self.here.disk
        disk.turn()
        disk.log.append(operation)


class Killed(BaseException):
    """The process ended here."""


@dataclass(eq=False)
class File:
    """A file's bytes, whatever it is called."""

    data: bytes
    synced: bool = False


@dataclass(eq=False)
class Link:
    """A symbolic link."""

    target: str


@dataclass(eq=False)
class Folder:
    """The names that a folder has on the disk for certain."""

    names: dict[str, Node] = field(default_factory=dict)


Node = File | Link | Folder
Names = dict[Folder, dict[str, Node]]  # what each folder's names are in one view of the disk


class Volume:
    """What is on the disk for certain, and the changes of names that may be there or not, in the order of the log."""

    def __init__(self, root: Path) -> None:
        self.root, self.top = root, _load(root)
        self.pending: list[Change] = []
        # What a running process sees: every change, in order.
        self.seen: Names = {folder: dict(folder.names) for folder in _folders(self.top)}

    def apply(self, operation: Operation) -> None:
        """The next operation of the log."""
        name, *arguments = operation
        if name == "sync":
            folder, last = self._place(arguments[0])
            self.seen[folder][last].synced = True
        elif name == "sync_folder":
            self._sync_folder(self._node(arguments[0]))
        elif name == "rename":
            self._change(Change(*self._place(arguments[0]), *self._place(arguments[1])))
        elif name in ("remove", "remove_folder"):
            self._change(Change(*self._place(arguments[0])))
        else:
            path, node = {
                "write": lambda: (arguments[0], File(bytes(arguments[1]))),
                "make_folder": lambda: (arguments[0], Folder()),
                "link": lambda: (arguments[1], Link(arguments[0])),
            }[name]()
            if isinstance(node, Folder):
                self.seen[node] = {}
            self._change(Change(None, "", *self._place(path), node))

    def states(self, rng: random.Random, count: int) -> Iterator[Folder]:
        """Trees that a power cut now may leave: nothing of what is pending, all of it, one of it missing or alone, and
        ``count`` combinations drawn by chance; each with unsynced bytes whole, torn and rubbish."""
        n = len(self.pending)
        chosen = [[False] * n, [True] * n]
        chosen += [[i != one for i in range(n)] for one in range(n)] + [
            [i == one for i in range(n)] for one in range(n)
        ]
        chosen += [[rng.random() < 0.5 for _ in range(n)] for _ in range(count)]
        for mask in chosen:
            names = {folder: dict(folder.names) for folder in self.seen}
            for change, there in zip(self.pending, mask, strict=True):
                if there:
                    change.make(names)
            tree = _tree(self.top, names)
            for how in ("whole", "torn", "rubbish") if _unsynced(tree) else ("whole",):
                yield _spoilt(tree, how, rng)

    def _change(self, change: Change) -> None:
        self.pending.append(change)
        change.make(self.seen)

    def _sync_folder(self, folder: Folder) -> None:
        durable = {one: one.names for one in self.seen}
        for change in [change for change in self.pending if folder in (change.old, change.new)]:
            change.make(durable)
            self.pending.remove(change)

    def _node(self, path: str) -> Folder:
        folder = self.top
        for part in Path(os.path.relpath(path, self.root)).parts:
            folder = self.seen[folder][part]
        return folder

    def _place(self, path: str) -> tuple[Folder, str]:
        return self._node(str(Path(path).parent)), Path(path).name


@dataclass(eq=False)
class Change:
    """A name that goes from one folder, comes into another, or both in one step."""

    old: Folder | None
    old_name: str
    new: Folder | None = None
    new_name: str = ""
    node: Node | None = None

    def make(self, names: Names) -> None:
        """Make it in one view, or nothing where what it takes away is not there."""
        node = self.node
        if self.old is not None:
            node = names[self.old].pop(self.old_name, None)
        if self.new is not None and node is not None:
            names[self.new][self.new_name] = node


def contents(tree: Folder) -> frozenset:
    """What is in a tree, to compare it with another; in names that are drawn by chance, that part does not count."""
    return frozenset((re.sub(r"^\.[0-9a-f]{12}-", ".", name), _content(node)) for name, node in tree.names.items())


def _content(node: Node) -> tuple[str, object]:
    if isinstance(node, Folder):
        return "folder", contents(node)
    return ("link", node.target) if isinstance(node, Link) else ("file", node.data)


def write_out(tree: Folder, root: Path) -> None:
    """Make a tree real, in a folder that is empty."""
    for name, node in tree.names.items():
        path = root / name
        if isinstance(node, Folder):
            path.mkdir()
            write_out(node, path)
        elif isinstance(node, Link):
            path.symlink_to(node.target)
        else:
            path.write_bytes(node.data)


def _load(root: Path) -> Folder:
    tree = Folder()
    for path in sorted(root.iterdir()) if root.is_dir() else []:
        if path.is_symlink():
            tree.names[path.name] = Link(str(path.readlink()))
        else:
            tree.names[path.name] = _load(path) if path.is_dir() else File(path.read_bytes(), synced=True)
    return tree


def _folders(tree: Folder) -> Iterator[Folder]:
    yield tree
    for node in tree.names.values():
        if isinstance(node, Folder):
            yield from _folders(node)


def _tree(folder: Folder, names: Names) -> Folder:
    inside = names[folder].items()
    return Folder({name: _tree(node, names) if isinstance(node, Folder) else node for name, node in inside})


def _unsynced(tree: Folder) -> bool:
    return any(isinstance(node, File) and not node.synced for f in _folders(tree) for node in f.names.values())


def _spoilt(tree: Folder, how: str, rng: random.Random) -> Folder:
    out = Folder()
    for name, node in tree.names.items():
        if isinstance(node, Folder):
            out.names[name] = _spoilt(node, how, rng)
        elif isinstance(node, File) and not node.synced and how != "whole":
            torn = node.data[: rng.randrange(max(len(node.data), 1))]
            data = torn if how == "torn" else rng.randbytes(len(node.data))
            out.names[name] = File(data)
        else:
            out.names[name] = node
    return out
