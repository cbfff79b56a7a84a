"""The facts of a report page as plain values, from audit.json, bench.json and the manifest."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.bench.protocol import SCHEMA
from edgeveil.edge_runtime.errors import BadInput, reason
from edgeveil.trainer.audit.document import identity, same
from edgeveil.trainer.audit.sections.retained_table import retained_table
from edgeveil.trainer.audit.verdict import CANNOT_TELL, HOLDS, LEAKS, percent, sentence, verdict, words

TONES = {HOLDS: "good", CANNOT_TELL: "some", LEAKS: "bad"}
GROUPS = (
    ("adaptive", "Adaptive: trained on perturbed samples. The evidence."),
    ("fixed", "Fixed: the classifier the perturber was trained against. Shows that training worked, nothing more."),
    ("transfer", "Transfer: another architecture, trained on clean samples."),
)


def summary(audit: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of the audit."""
    machine, data = audit["machine"], audit["data"]
    also = []
    if audit["budget"] == "quick":
        also.append("Longer training of the adversaries, and more seeds: this was the quick audit.")
    if data["clusters"] is None:
        also.append(
            "Separate people: the data do not identify people, so rows of one person may be in training and in test."
        )
    return {
        "audit": audit,
        "data": data,
        "created": audit["created"][:10],
        "edgeveil": audit["versions"].get("edgeveil", ""),
        "tone": TONES[verdict(audit)["word"]],
        "verdict": f"{words(audit)[0].upper()}{words(audit)[1:]}",
        "sentence": sentence(audit),
        "certified": certified(audit),
        "groups": groups(audit),
        "useful": retained_table(audit),
        "also_not_tested": also,
        "provenance": [
            ("Data", f"{data['name']}: {', '.join(f'{n:,} {name}' for name, n in data['rows'].items())} rows"),
            ("Adversaries", f"{audit['budget']} budget, seed {audit['seed']}, {audit['wall_time_s']:.0f} s"),
            ("Machine", f"{machine['system']} {machine['architecture']}, {machine['cores']} cores"),
            ("Versions", ", ".join(f"{name} {version}" for name, version in sorted(audit["versions"].items()))),
        ],
    }


def certified(audit: Mapping[str, Any]) -> dict[str, str]:
    """The certified ``figure`` and the ``note`` with its assumptions; where nothing is certified, the note says why."""
    y = audit["data"]["target"]
    found = audit.get("certificate") or {"given": False, "sentence": "This audit counted nothing."}
    if found["given"]:
        return {
            "figure": f"\N{LESS-THAN OR EQUAL TO} {percent(found['bound'])}",
            "note": f"right at most, for one release, where the attacker knows {y} alone; "
            f"{100 * found['confidence']:g} % confidence, for {found['unit']} like the {found['units']:,} counted",
        }
    codes = found.get("per_code")
    if codes and codes["given"]:
        return {
            "figure": f"factor {codes['factor']:.2f}",
            "note": f"by which one code raises the chance of any value at most, given {y}; "
            f"{100 * codes['confidence']:g} % confidence, for {found['unit']} like the {codes['units']:,} counted",
        }
    reason = found["sentence"].removeprefix("No certificate: ")
    return {"figure": "No certificate", "note": reason[:1].upper() + reason[1:]}


def groups(audit: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of the table by kind, each with label-only's row of the same adversary."""
    beside = {identity(row): row for row in audit["label_only"]["adversaries"]}
    seeds = Counter((row["name"], row.get("learned_on")) for row in audit["adversaries"])
    made = []
    for kind, title in GROUPS:
        rows = [
            {
                **row,
                "best": same(row, audit["worst_adaptive"]),
                "seeds": seeds[row["name"], row.get("learned_on")],
                "floor": beside.get(identity(row)),
            }
            for row in audit["adversaries"]
            if row["kind"] == kind
        ]
        if rows:
            rows.sort(key=lambda row: -row["accuracy"])
            made.append({"title": title, "rows": rows, "non_adaptive": kind != "adaptive"})
    return made


def read_bench(path: Path) -> Mapping[str, Any]:
    """A result of ``edgeveil-edge bench``. Raises ``BadInput`` for anything else."""
    expected = f"A result of `edgeveil-edge bench --json` was expected in {path}"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{expected}, which cannot be read: {reason(error)}. Correct --bench.") from None
    if not isinstance(found, dict) or "latency_ms" not in found or "verdict" not in found:
        raise BadInput(f"{expected}; this file is something else. Correct --bench.")
    if found.get("schema") != SCHEMA:
        raise BadInput(f"{expected}, of schema {SCHEMA}; it is of {found.get('schema')!r}. Run the benchmark again.")
    return found


def speed_facts(bench: Mapping[str, Any]) -> list[tuple[str, str]]:
    """bench.json as names and values; empty values are left out."""
    machine = bench["machine"]
    facts = [
        ("Verdict", " because: ".join([bench["verdict"], *filter(None, ["; ".join(bench["reasons"])])])),
        ("Machine", f"{_place(machine)}, {machine['cores']} cores, {machine['system']}"),
        ("Artefact", bench.get("artefact", "")),
        ("Backend", bench.get("backend", "")),
        ("Latency", ", ".join(f"{name} {bench['latency_ms'][name]:.3g} ms" for name in ("p50", "p90", "p99"))),
        ("Frames per second", f"{bench['fps']:,.0f}"),
        ("Multiply-adds", f"{bench['macs']:,} ({bench['flops']:,} FLOP)"),
        ("Parameters", f"{bench['parameters']:,}"),
        ("Peak memory", f"{bench['peak_rss_bytes'] / 2**20:,.0f} MiB"),
    ]
    return [(name, value) for name, value in facts if value]


def headline(bench: Mapping[str, Any]) -> dict[str, str]:
    """The tile of the speed: its ``title``, ``figure``, ``tone`` and the ``note`` below. INVALID takes the figure's
    place, and the reasons that of the note."""
    title = f"One frame, median, on {_place(bench['machine'])}"
    median = f"{bench['latency_ms']['p50']:.3g} ms"
    if bench["verdict"] != "VALID":
        why = "; ".join(bench["reasons"]) or "the benchmark gives no reason"
        note = f"{why}. It measured {median}: do not quote it."
        return {"title": title, "figure": bench["verdict"], "tone": "bad", "note": note}
    note = f"{bench['fps']:,.0f} frames per second; {bench['macs']:,} MACs"
    return {"title": title, "figure": median, "tone": "", "note": note}


def _place(machine: Mapping[str, Any]) -> str:
    return machine["board"] or machine["processor"] or machine["architecture"]


def identities(audit: Mapping[str, Any], manifest: Mapping[str, Any], bundle: Path | None) -> list[tuple[str, str]]:
    """Hashes of the audited files and of the bundle; a file that has changed since the audit is marked."""
    found = []
    for artefact, models in audit["speaks_of"].items():
        for model, sha256 in models.items():
            now = manifest["models"].get(model, {}).get("artefacts", {}).get(artefact, {}).get("sha256")
            stale = "" if now == sha256 else " (audited; the export now holds another file)"
            found.append((f"{model}, {artefact}", f"sha256 {sha256}{stale}"))
    if bundle is not None:
        found.append((bundle.name, f"sha256 {hashlib.sha256(_bundle_bytes(bundle)).hexdigest()}"))
    return found


def is_development(bundle: Path | None) -> bool:
    """Whether a bundle calls itself a development one. For display only: the bundle is not verified."""
    if bundle is None:
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(_bundle_bytes(bundle))) as archive:
            return bool(json.loads(archive.read("manifest.json"))["development"])
    except (zipfile.BadZipFile, KeyError, ValueError):
        raise BadInput(
            f"A sealed .veil bundle was expected at {bundle}; this file is not one. Correct --bundle."
        ) from None


def _bundle_bytes(bundle: Path) -> bytes:
    try:
        return bundle.read_bytes()
    except OSError as error:
        raise BadInput(
            f"A bundle was expected at {bundle}; there is none ({error.strerror}). Seal one, or leave out --bundle."
        ) from None
