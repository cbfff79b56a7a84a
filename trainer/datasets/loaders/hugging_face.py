"""``huggingface:PATH``: data of Hugging Face's ``datasets`` on this disk: what ``save_to_disk`` wrote, a folder of its
cache, or Arrow and Parquet files.

Source: huggingface.co/docs/datasets, "Datasets and Arrow". Their files are Arrow streams whose schema names the classes
of a label. pyarrow reads them; ``datasets`` itself would add forty packages, a cache and the network, and no data.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sources.picture_size import read_size
from edgeveil.trainer.datasets.columns import Column, Table, column_of, nfc, of_arrow
from edgeveil.trainer.datasets.loaders.formats import Format, Samples, alike_columns, below, held_out, need_memory


class HuggingFace(Format):
    """Arrow and Parquet files as ``datasets`` writes them, read by pyarrow."""

    names = ("huggingface",)
    forms = ("huggingface:PATH",)
    what = "Arrow or Parquet files"
    endings = ("arrow", "parquet")
    marks = ("dataset_dict.json", "dataset_info.json", "state.json")
    module = "pyarrow"
    extra = "parquet"

    @classmethod
    def read(cls, path: Path, gone: Collection[str], x: str | None) -> Table:
        """See ``Format``. Files that ``map`` and ``filter`` left in a folder, cache-*.arrow, are not read."""
        arrow = importlib.import_module(cls.module)
        files = [one for one in cls.files(path) if not one.name.startswith(("cache-", "tmp"))]
        found = [(table, file) for file in files if (table := _table(arrow, file)).num_rows]
        if not found:
            raise BadInput(f"{path} has no rows. Add some.")
        tables, shown = [table for table, _ in found], below(path, [file for _, file in found])
        names = alike_columns([dict.fromkeys(one.column_names) for one in tables], path, shown)
        features, columns, arrays = _features(tables[0].schema), dict[str, Column](), dict[str, Samples]()
        for name in names:
            where = f"{path}: {name}"
            chunks = [_stored(arrow, chunk) for one in tables for chunk in one[name].chunks]
            column, name = arrow.chunked_array(chunks), nfc(name)
            feature = features.get(name)
            feature = feature if isinstance(feature, dict) else {}
            if arrow.types.is_struct(column.type):
                if feature.get("_type", "Image") == "Image" and column.type.get_field_index("bytes") >= 0:
                    arrays[name] = Samples(
                        where, len(column), _pictures(importlib.import_module("pyarrow.compute"), column)
                    )
            elif arrow.types.is_binary(column.type) and column[0].is_valid and read_size(column[0].as_py()) is not None:
                arrays[name] = Samples(where, len(column), _cells(column))
            elif _is_list(arrow, column.type):
                if arrow.types.is_primitive(_inner(arrow, column.type)):
                    arrays[name] = Samples(where, len(column), _cells(column), _nested(arrow, column, where))
            elif isinstance(classes := feature.get("names"), list):
                named = [
                    classes[one] if one is not None and 0 <= one < len(classes) else None for one in column.to_pylist()
                ]
                columns[name] = column_of(named, gone, where)
            elif not arrow.types.is_nested(column.type):
                columns[name] = of_arrow(column, gone, where)
        return Table(path, columns, arrays, held_out(shown, [one.num_rows for one in tables]))


def _table(arrow: Any, file: Path) -> Any:
    """The table of a file, whose offsets are checked: another program may have written them."""
    if file.suffix.lower() == ".parquet":
        parquet = importlib.import_module("pyarrow.parquet")
        groups = parquet.ParquetFile(file).metadata
        need_memory(sum(groups.row_group(at).total_byte_size for at in range(groups.num_row_groups)), str(file))
        table = parquet.read_table(file)
    else:
        ipc, source = importlib.import_module("pyarrow.ipc"), arrow.memory_map(str(file))
        try:
            batches = ipc.open_stream(source)
        except arrow.ArrowInvalid:
            batches = ipc.open_file(source)
            batches = (batches.get_batch(at) for at in range(batches.num_record_batches))
        found, size = [], 0
        for batch in batches:
            found.append(batch)
            size += batch.nbytes
            need_memory(size - file.stat().st_size, str(file))  # mapped, unless it was compressed
        table = arrow.Table.from_batches(found) if found else arrow.table({})
    table.validate(full=True)
    return table


def _features(schema: Any) -> Mapping[str, Any]:
    """What ``datasets`` says of the columns, in the schema; empty where another program wrote it."""
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        said = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {nfc(name): one for name, one in said.items()}
    return {}


def _stored(arrow: Any, chunk: Any) -> Any:
    return chunk.storage if isinstance(chunk.type, arrow.BaseExtensionType) else chunk


def _is_list(arrow: Any, kind: Any) -> bool:
    return bool(arrow.types.is_list(kind) or arrow.types.is_large_list(kind) or arrow.types.is_fixed_size_list(kind))


def _inner(arrow: Any, kind: Any) -> Any:
    return _inner(arrow, kind.value_type) if _is_list(arrow, kind) else kind


def _cells(column: Any) -> Any:
    def each(rows: Iterable[int]) -> Iterator[Any]:
        for row in rows:
            cell = column[row].as_py()
            yield cell if isinstance(cell, bytes) else np.array(cell)

    return each


def _pictures(compute: Any, column: Any) -> Any:
    data = compute.struct_field(column, "bytes")

    def each(rows: Iterable[int]) -> Iterator[bytes]:
        for row in rows:
            cell = data[row].as_py()
            if cell is None:
                raise ValueError("it names a file and holds no picture: save the data set with save_to_disk")
            yield cell

    return each


def _nested(arrow: Any, column: Any, where: str) -> Callable[[], np.ndarray]:
    """Lists in lists, of equal lengths, as one array (rows, ...)."""
    compute = importlib.import_module("pyarrow.compute")

    def read() -> np.ndarray:
        values, shape = column.combine_chunks(), [len(column)]
        while _is_list(arrow, values.type):
            lengths = compute.list_value_length(values)
            least, most = compute.min_max(lengths).as_py().values()
            if lengths.null_count or least != most:
                raise BadInput(f"{where}: its lists have {least} to {most} values, or none. Bring them to one length.")
            shape.append(most)
            values = values.flatten()
        if values.null_count:
            raise BadInput(f"{where} has no value in {values.null_count} places. Fill them.")
        need_memory(math.prod(shape) * 8, where)
        x = np.asarray(values.to_numpy(zero_copy_only=False))
        return (x.astype(np.uint8) if x.dtype == bool else x).reshape(shape)

    return read
