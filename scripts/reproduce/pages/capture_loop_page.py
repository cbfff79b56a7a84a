"""The recorded parts of docs/results/capture-loop.md, from the records of the scripts that it names."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.trainer.report.bench_tables import markdown
from edgeveil.trainer.report.marked import filled

NAME = "capture-loop"
RECORDS, PAGE = Path("docs/results/bench"), Path("docs/results/capture-loop.md")

Record = Mapping[str, Any]
SPENT_ON = ("tflite-int8", "ai-edge-litert")  # the start whose parts are told


def page(text: str, results: Path) -> str:
    """``text`` with its recorded parts made anew. Raises ``BadInput`` where a record is not there."""

    def part(file: str, make: Callable[[Record], str]) -> str:
        path = results / f"{file}.json"
        if not path.is_file():
            raise BadInput(f"{path} is not there; record it first (the scripts of docs/results/capture-loop.md).")
        return make(json.loads(path.read_text(encoding="utf-8")))

    return filled(text, {name: partial(part, *how) for name, how in _PARTS.items()})


def write() -> None:
    """Bring the page up to date with its records."""
    write_atomic(PAGE, page(PAGE.read_text(encoding="utf-8"), RECORDS).encode())


def _ratio(median: float, turns: Sequence[float]) -> str:
    return f"{median:.2f} ({min(turns):.2f} to {max(turns):.2f})"


def _loop(document: Record) -> str:
    rows = [
        [
            row["input"],
            row["artefact"].removeprefix("tflite-"),
            f"{row['bare_fps']:,.0f}",
            f"{row['loop_fps']:,.0f}",
            _ratio(row["ratio"], row["ratios"]),
            _ratio(row["ratio_beside_a_stranger"], row["ratios_beside_a_stranger"]),
            f"{1e6 / row['loop_fps'] - 1e6 / row['bare_fps']:.0f}",
        ]
        for row in document["rows"]
    ]
    head = ["input", "artefact", "interpreter, frames/s", "loop, frames/s", "ratio", "ratio, with an unrelated load"]
    note = f"{document['turns']} turns of {document['seconds_a_turn']:g} s; {document['verdict']}.\n"
    return markdown([*head, "added, us a frame"], rows) + "\n" + note


def _apart(document: Record) -> str:
    us = document["apart_us"]
    return (
        f"Apart from that, medians: cutting people out of a 424 x 512 depth picture takes "
        f"{us['crop_people_of_424x512'] / 1e3:.1f} ms, decoding one from a 16-bit PNG "
        f"{us['decode_png_424x512_16bit'] / 1e3:.1f} ms, packing and sending a record "
        f"{us['pack_and_pipe_28 x 28']:.0f} us (28 x 28) and {us['pack_and_pipe_180 x 180']:.0f} us (180 x 180).\n"
    )


def _overhead(document: Record) -> str:
    summary, received, memory = document["summary"], document["received"], document["memory"]
    late = received["delay_after_tick_ms"]
    # Within the first minutes interpreters and allocators take what they will keep.
    settled = [size for second, size in memory["samples"] if second >= 300]
    return (
        f"{document['seconds'] / 60:.0f} minutes, {document['macs']['generator'] / 1e6:.0f} million multiply-adds: "
        f"{summary['frames_in']} frames in, {summary['frames_out']} out; not out: {_reasons(summary['dropped'])}. Of "
        f"the {received['records']} records received the slowest had left {late['most']:.0f} ms after its tick, the "
        f"99th of a hundred {late['p99']:.0f} ms. Memory of both processes: {memory['warm_bytes'] / 1e6:.1f} MB after "
        f"two minutes, {min(settled) / 1e6:.1f} to {max(settled) / 1e6:.1f} MB from the fifth minute to the end.\n"
    )


def _soak(document: Record) -> str:
    events, rss = document["events"], document["outside_rss_bytes"]
    sizes = document["record_sizes"]
    return (
        f"{document['seconds'] / 60:.0f} minutes: {document['frames_in']} frames in, {document['frames_out']} out, "
        f"{sum(document['dropped'].values())} dropped ({_reasons(document['dropped'])}), {document['unaccounted']} "
        f"unaccounted for. {events['inside-ended']} ends of the inside by crash, hang, signal or stop. "
        f"{document['records_received']} records received of {document['ticks_wanted']} ticks, "
        f"{'all of one size' if len(sizes) == 1 else f'of {len(sizes)} sizes'}; the outside's memory grew by "
        f"{(rss['last'] - rss['first']) / 2**20:.1f} MiB.\n"
    )


def _camera(document: Record) -> str:
    found = document["row_found_in_memory"]
    return (
        f"{document['seconds'] / 60:.0f} minutes, the server killed {document['server_killed']} times: "
        f"{document['frames_in']} frames in, {document['frames_out']} out, {sum(document['dropped'].values())} dropped "
        f"({_reasons(document['dropped'])}), {document['unaccounted']} unaccounted for. In {document['looks']} looks, "
        f"the row was {found['outside']} times in the memory of the sending process, {found['inside']} times in the "
        f"inside's and {found[FETCHING]} times in the fetching one's, and in {document['row_found_in_files']} of "
        f"{document['files_searched']} files that were written meanwhile.\n"
    )


def _series(document: Record) -> str:
    late, share, memory = document["added_ms"], document["processor"], document["memory"]
    received, grown = document["received"]["wheel"], memory["growth_bytes_per_minute"] / 1e3
    dropped = _reasons(document["dropped"]) or "none"
    load = [one for one in memory["load"] if one is not None]
    how = "before other work" if document.get("realtime") else f"at nice {document['nice']}"
    return (
        f"{document['seconds'] / 60:.0f} minutes, {document['macs'] / 1e6:.1f} million multiply-adds a window, {how}, "
        f"beside a load of {min(load):.0f} to {max(load):.0f}: {document['windows']} windows, "
        f"{document['frames_out']} out, {received} received; dropped: {dropped}. Added to a window, from its last "
        f"sample to the receiver, beside the control: {late['p50']:.0f} ms at the median, {late['p99']:.0f} at the "
        f"99th of a hundred, {late['most']:.0f} at most. {100 * share['wheel']:.1f} % of one core for both processes, "
        f"{100 * share['control']:.1f} % for the control, {100 * share['bare interpreter']:.3f} % for the interpreter "
        f"alone. Memory: {memory['warm_bytes'] / 1e6:.1f} MB after two minutes, {memory['end_bytes'] / 1e6:.1f} at the "
        f"end, {grown:+.1f} kB a minute.\n"
    )


def _speed(document: Record) -> str:
    starts, frames = document["start"], document["frames"]
    imports, cleaner, goals = document["import"]["ratio"], document["cleaner"]["share"], document["goals"]
    rows = [
        [
            f"open and first frame, {row['artefact']} on {row['backend']}, times the bare interpreter",
            *(f"{row['ratio'][side]:.2f}" for side in ("before", "now")),
            f"at most {goals['start']:g}",
        ]
        for row in starts
    ]
    rows += [
        [
            f"around the interpreter, {row['input']}, {row['artefact']}, us a frame",
            *(f"{row[side]['added_us']:.0f}" for side in ("before", "now")),
            f"at most {goals['frames']:g}",
        ]
        for row in frames
    ]
    rows += [
        ["import of the runtime, times that of numpy", *map("{:.2f}".format, imports.values()), f"{goals['import']:g}"],
        ["one cleaned vector, share of two products", *map("{:.2f}".format, cleaner.values()), f"{goals['cleaner']:g}"],
    ]
    files = [row["ratio"]["file"] for row in starts]
    tiny = next(row for row in starts if (row["artefact"], row["backend"]) == SPENT_ON)
    now = tiny["now"]
    spent = (
        f"Where a start goes, {' on '.join(SPENT_ON)}: numpy {now['numpy_ms']:.0f} ms, the runtime's modules "
        f"{now['import_ms']:.0f}, verify, open and self-test {now['open_ms']:.0f}, of {now['ms']:.0f} ms; the bare "
        f"interpreter takes {tiny['bare']['ms']:.0f}. By the one file of a board, which is compiled at every start, "
        f"the ratios are {min(files):.2f} to {max(files):.2f}.\n"
    )
    missed = ", ".join(name for name, met in document["met"].items() if not met) or "none"
    how = f"{document['turns']} turns, time of the processor, beside a load of {document['load']:.0f}."
    note = f"{how} Goals that are not met everywhere: {missed}. {spent}"
    return markdown(["what", "before", "now", "goal"], rows) + "\n" + note


def _reasons(dropped: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items(), key=lambda one: -one[1]))


FETCHING = "camera's"
_PARTS: dict[str, tuple[str, Callable[[Record], str]]] = {
    "loop": ("loop", _loop),
    "apart": ("loop", _apart),
    "edge-speed": ("edge-speed", _speed),
    "overhead": ("overhead", _overhead),
    "soak": ("soak", _soak),
    "rtsp-tls": ("rtsp-tls", _camera),
    "series": ("../series/loop", _series),
    "series-beside-others": ("../series/loop-beside-others", _series),
}
