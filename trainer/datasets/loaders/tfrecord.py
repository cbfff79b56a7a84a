"""``tfrecord:PATH``: the ``tf.train.Example``s of a TFRecord file, or of all shards in a folder, by their features.

Source: TensorFlow, "TFRecord and tf.train.Example"; tf.data reads and checks the records. What a feature is, the first
record shows: one number or text, so many numbers, or the file of a picture.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sources.picture_size import read_size
from edgeveil.trainer.datasets.columns import Table, column_of, nfc
from edgeveil.trainer.datasets.loaders.formats import Format, Samples, below, held_out

GZIP = b"\x1f\x8b"
HEAD, CHECKSUM = 12, 4  # bytes around a record: its length and that one's checksum; the checksum of the record
TYPES = {"int64_list": np.int64, "float_list": np.float32}


class TfRecord(Format):
    """TFRecord, read by TensorFlow."""

    names = ("tfrecord",)
    forms = ("tfrecord:PATH",)
    what = "TFRecord files"
    endings = ("tfrecord", "tfrecords", "tfrec")
    module = "tensorflow"

    @classmethod
    def files(cls, path: Path) -> list[Path]:
        """As ``Format.files``; shards are also called data.tfrecord-00000-of-00004."""
        named = [one for one in path.glob("*.tfrecord-*-of-*") if path.is_dir() and one.is_file()]
        return sorted(named) or super().files(path)

    @classmethod
    def read(cls, path: Path, gone: Collection[str], x: str | None) -> Table:
        """See ``Format``."""
        tf = importlib.import_module(cls.module)
        files, rows, found = cls.files(path), list[int](), dict[str, list[Any]]()
        kinds = dict[str, tuple[str, int]]()
        for file in files:
            _check_lengths(file)
            before = len(next(iter(found.values()), ()))
            row = before
            for row, record in enumerate(tf.data.TFRecordDataset(str(file)).as_numpy_iterator(), before + 1):
                features = _features(tf, record, file, row - before)
                if not kinds:
                    kinds = {name: (kind, len(values)) for name, (kind, values) in features.items()}
                    found = {name: [] for name in kinds}
                for name, values in found.items():
                    values.append(_value(features, name, kinds[name], f"{file}, record {row - before}"))
            rows.append(row - before)
        if not kinds:
            raise BadInput(f"{path} has no records. Add some.")
        columns, arrays = {}, {}
        for name, (kind, many) in kinds.items():
            where, values = f"{path}: {name}", found[name]
            if many != 1 and kind in TYPES:
                arrays[nfc(name)] = Samples.of(where, np.stack(values))
            elif many == 1 and kind == "bytes_list" and read_size(values[0]) is not None:
                arrays[nfc(name)] = Samples.of(where, values)
            elif many == 1 and (kind != "bytes_list" or _is_text(values[0])):
                columns[nfc(name)] = column_of(values, gone, where)
        return Table(path, columns, arrays, held_out(below(path, files), rows))


def _is_text(data: bytes) -> bool:
    try:
        return data.decode().isprintable()
    except UnicodeDecodeError:
        return False


def _check_lengths(file: Path) -> None:
    """Raise ``BadInput`` for a length beyond the file: TensorFlow makes room for what a record says."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        while head := stream.read(HEAD):
            if head.startswith(GZIP) and stream.tell() == HEAD:
                raise BadInput(f"{file} is compressed, and was expected as it is: unpack it with gunzip.")
            length = int.from_bytes(head[:8], "little")
            if len(head) < HEAD or stream.tell() + length + CHECKSUM > size:
                raise BadInput(f"{file} ends within a record, or is no TFRecord file. Write it again.")
            stream.seek(length + CHECKSUM, 1)


def _features(tf: Any, record: bytes, file: Path, number: int) -> Mapping[str, tuple[str, Sequence[Any]]]:
    """The kind and the values of each feature of a record."""
    if tf.train.SequenceExample.FromString(record).feature_lists.feature_list:
        raise BadInput(f"{file}, record {number}, is a SequenceExample; expected an Example with an array for x.")
    found = {}
    for name, feature in tf.train.Example.FromString(record).features.feature.items():
        kind = feature.WhichOneof("kind")
        if kind is not None:
            found[name] = (kind, getattr(feature, kind).value)
    if not found:
        raise BadInput(f"{file}, record {number}, is no tf.train.Example with features. Write one.")
    return found


def _value(features: Mapping[str, tuple[str, Sequence[Any]]], name: str, kind: tuple[str, int], where: str) -> Any:
    """One value of a record, or an array of so many as the first record has; None where it has no value."""
    came, values = features.get(name, (kind[0], ()))
    if kind[1] == 1 and not len(values):
        return None
    if (came, len(values)) != kind:
        word = kind[0].removesuffix("_list")
        raise BadInput(
            f"{where}: {name} has {len(values)} of {came.removesuffix('_list')}, and the first record has {kind[1]} of "
            f"{word}. Write as many of one type in each record."
        )
    return values[0] if kind[1] == 1 else np.array(values, TYPES.get(kind[0], object))
