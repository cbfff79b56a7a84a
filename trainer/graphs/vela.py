"""What an Arm Ethos-U runs of a TFLite file, and how fast Vela, Arm's own compiler for it, expects it to be.

The file is compiled, in a process of its own, and nothing is run: the times are those of Vela's model of the NPU with
the clock and the memories of the system configuration that it takes where none is named.
"""

from __future__ import annotations

import csv
import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput

LIMIT_S = 600
_NEXT = "\f"  # before what Vela says of each NPU
# Vela's command for each NPU, in one process: to import it takes ten times as long as to compile.
_COMPILE = """
import sys
from pathlib import Path
from ethosu.vela.vela import main

for npu in sys.argv[2:]:
    print(end="\f")
    if code := main([sys.argv[1], "--accelerator-config", npu, "--output-dir", str(Path(sys.argv[1]).with_name(npu))]):
        sys.exit(code)
"""
_LEFT = re.compile(r"operator: (?P<kind>\w+), ofm: '(?P<tensor>[^']*)'\nReason: (?P<reason>[^\n]*)")
_COUNTS = re.compile(r"(CPU|NPU) operators = (\d+)")


@dataclass(frozen=True)
class Placement:
    """Where one network runs.

    ``on_npu`` and ``on_cpu`` count operations as Vela has them; ``left`` names those of the CPU, each with Vela's
    reason. ``ms`` is a frame's time on the NPU and ``clock_mhz`` its clock; ``sram_kib`` and ``other_kib`` are the
    memory that the NPU uses, on the chip and off it. These are None where nothing is left for the NPU.
    """

    npu: str
    on_npu: int
    on_cpu: int
    left: tuple[str, ...]
    ms: float | None
    clock_mhz: float | None
    system: str | None
    memory: str | None
    sram_kib: float | None
    other_kib: float | None

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


def version() -> str:
    """Vela's version. Raises ``BadInput`` where it is not installed."""
    try:
        return importlib.metadata.version("ethos-u-vela")
    except importlib.metadata.PackageNotFoundError:
        raise BadInput(
            "Vela was expected, which compiles for an Ethos-U; it is not installed: pip install 'edgeveil[ethos-u]'."
        ) from None


def npus() -> list[str]:
    """The configurations that the installed Vela knows, such as ethos-u55-128: series and MACs a cycle."""
    version()
    features = importlib.import_module("ethosu.vela.architecture_features")
    return list(features.Accelerator.member_list())


def place(data: bytes, wanted: Sequence[str]) -> list[Placement]:
    """Compile a TFLite file for each of these NPUs. Raises ``BadInput`` for an NPU or a file unknown to Vela."""
    known = npus()
    for npu in wanted:
        if npu not in known:
            raise BadInput(f"An NPU that Vela knows was expected ({', '.join(known)}); got {npu!r}.")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "model.tflite"
        source.write_bytes(data)
        command = [sys.executable, "-u", "-c", _COMPILE, str(source), *wanted]
        try:
            done = subprocess.run(  # noqa: S603 - a fixed command line; the NPUs are of Vela's own list
                command, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise BadInput(f"Vela did not compile the file in {LIMIT_S} s.") from None
        if done.returncode:
            error_lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
            raise BadInput(f"Vela {version()} does not compile this TFLite file: {error_lines[-1].strip()[:200]}")
        texts = done.stdout.split(_NEXT)[1:]
        return [_placement(npu, text, _row(Path(folder) / npu)) for npu, text in zip(wanted, texts, strict=True)]


def _row(folder: Path) -> dict[str, str]:
    """Vela's summary of what it compiled into a folder; empty where it wrote none."""
    tables = sorted(folder.glob("*summary*.csv"))
    return next(csv.DictReader(tables[0].read_text().splitlines()), {}) if tables else {}


def _placement(npu: str, text: str, row: dict[str, str]) -> Placement:
    counts = {side: int(number) for side, number in _COUNTS.findall(text)}
    if set(counts) != {"CPU", "NPU"}:
        raise BadInput(f"Vela {version()} does not say where it put the operations; another version was expected.")

    def number(name: str) -> float | None:
        return float(row[name]) if counts["NPU"] and row.get(name) else None

    seconds, hertz = number("inference_time"), number("core_clock")
    memory = [number(f"{kind}_memory_used") or 0.0 for kind in ("dram", "on_chip_flash", "off_chip_flash")]
    return Placement(
        npu,
        on_npu=counts["NPU"],
        on_cpu=counts["CPU"],
        left=tuple(f"{one['kind']} ({one['tensor'][:60]}): {one['reason']}" for one in _LEFT.finditer(text)),
        ms=None if seconds is None else seconds * 1e3,
        clock_mhz=None if hertz is None else hertz / 1e6,
        system=row.get("system_config") if counts["NPU"] else None,
        memory=row.get("memory_mode") if counts["NPU"] else None,
        sram_kib=number("sram_memory_used"),
        other_kib=sum(memory) if counts["NPU"] else None,
    )
