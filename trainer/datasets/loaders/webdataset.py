"""``webdataset:PATH``: a tar file of samples, or all shards in a folder; the files of one sample share a name.

Source: the WebDataset format, github.com/webdataset/webdataset. The package of that name streams shards and decodes
members by unpickling some; here the standard library's tarfile lists them, and the board's reader reads pictures.
Nothing is unpacked to disk.
"""

from __future__ import annotations

import io
import math
import tarfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sources.images import OTHERS, SUFFIXES
from edgeveil.edge_runtime.util import strict_json
from edgeveil.trainer.datasets.columns import Table, column_of, listed, nfc
from edgeveil.trainer.datasets.loaders.formats import Format, Samples, below, held_out
from edgeveil.trainer.progress import say

KEY = "__key__"  # the name that the files of a sample share
CODE = ("pyd", "pickle", "pkl", "pth", "pt", "joblib", "dill")  # whose readers run what is in them
MOST_TEXT = 2**16  # bytes of a member that is read as text or JSON


class Member(NamedTuple):
    """Where the bytes of a file within a tar file are."""

    file: Path
    at: int
    size: int

    def read(self) -> bytes:
        """Its bytes."""
        with self.file.open("rb") as stream:
            stream.seek(self.at)
            return stream.read(self.size)


class WebDataset(Format):
    """WebDataset, read by the standard library."""

    names = ("webdataset",)
    forms = ("webdataset:PATH",)
    what = "WebDataset shards"
    endings = ("tar",)

    @classmethod
    def read(cls, path: Path, gone: Collection[str], x: str | None) -> Table:
        """See ``Format``. Fields are the endings of names; of a ``json`` they are its keys."""
        files, samples, rows, others = cls.files(path), list[dict[str, Any]](), list[int](), Counter[str]()
        for file in files:
            before = len(samples)
            samples += _samples(file, others)
            rows.append(len(samples) - before)
        if others:
            say(f"note: {path}: {others.total()} files left out, of the endings {listed(sorted(others))}")
        names = dict.fromkeys(name for sample in samples for name in sample)
        columns, arrays = {}, {}
        for name in names:
            values = [sample.get(name) for sample in samples]
            where = f"{path}: {name}"
            if not any(isinstance(one, Member) for one in values):
                columns[name] = column_of(values, gone, where)
                continue
            without = next((sample[KEY] for sample, one in zip(samples, values, strict=True) if one is None), None)
            if without is None:
                arrays[name] = Samples(where, len(values), _reader(name, values))
            elif x in (None, name):
                raise BadInput(f'{path}: the sample "{without}" has no file .{name}, as others have. Add or remove it.')
        return Table(path, columns, arrays, held_out(below(path, files), rows))


def _samples(file: Path, others: Counter[str]) -> list[dict[str, Any]]:
    """The samples of a shard: fields of text as they are, those of arrays and pictures as ``Member``. ``others`` counts
    the endings of files that are neither. Raises ``BadInput``."""
    found, size = dict[str, dict[str, Any]](), file.stat().st_size
    try:
        with tarfile.open(file, "r:") as archive:
            for entry in archive:
                name = PurePosixPath(entry.name)
                if entry.isdir() or name.name.startswith("."):
                    continue
                if name.is_absolute() or ".." in name.parts or not entry.isreg() or entry.sparse is not None:
                    raise BadInput(f"{file}: {ascii(entry.name)[1:-1]} is a link, or leads out of it. Leave it out.")
                stem, _, ending = name.name.partition(".")
                ending = nfc(ending.lower())
                if ending.rpartition(".")[2] in CODE:
                    raise BadInput(
                        f"{file}: {ascii(entry.name)[1:-1]} is not read: that would run code in it. Write arrays as "
                        ".npy, and labels as .cls, .txt or .json."
                    )
                if entry.offset_data + entry.size > size:
                    raise tarfile.ReadError("unexpected end of data")
                key = nfc(str(name.with_name(stem)))
                sample = found.setdefault(key, {KEY: key})
                fields = _fields(ending, Member(file, entry.offset_data, entry.size))
                others.update([] if fields else [ending])
                if twice := set(fields) & set(sample):
                    raise BadInput(
                        f'{file}: "{key}" has {listed(sorted(twice))} twice. Give every sample a name of its own.'
                    )
                sample |= fields
    except tarfile.TarError as error:
        with file.open("rb") as stream:
            packed = stream.read(2) in (b"\x1f\x8b", b"BZ", b"\xfd7", b"\x28\xb5")
        cure = "it is compressed: unpack it" if packed else f"{error}. Write it again"
        raise BadInput(f"{file} cannot be read as a tar file: {cure}.") from None
    return [sample for sample in found.values() if len(sample) > 1]


def _fields(ending: str, member: Member) -> dict[str, Any]:
    """What a member holds; nothing where it is neither a picture, an array nor a short text."""
    last = "." + ending.rpartition(".")[2]
    if last in (*SUFFIXES, ".npy"):
        return {ending: member}
    if last in OTHERS or member.size > MOST_TEXT:
        return {}
    try:
        if last != ".json":
            return {ending: member.read().decode().strip()}
        content = strict_json.loads(member.read())
    except UnicodeDecodeError:
        return {}
    except strict_json.BadJson as error:
        raise BadInput(f"{member.file}: a .{ending} of it cannot be read: {error}.") from None
    content = content if isinstance(content, dict) else {ending: content}
    return {nfc(name): one for name, one in content.items() if not isinstance(one, (dict, list))}


def _reader(name: str, members: list[Any]) -> Any:
    def each(rows: Iterable[int]) -> Iterator[Any]:
        for row in rows:
            data = members[row].read()
            yield _array(data) if name.endswith("npy") else data

    return each


def _array(data: bytes) -> np.ndarray:
    """The array of a .npy file, whose head is compared with its length before there is room for it."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("it is an array of Python objects, which would run code")
    if math.prod(shape) * dtype.itemsize > len(data) - stream.tell():
        raise ValueError("it is shorter than its head says")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)
