"""Tables 3 and 4 of PR-GAN: what the generators cost beside mobile networks, and how many inputs a second they take.

Ours are the generators of the recipes, the depth one at 180 x 180 and once four times as wide, untrained: time does not
depend on what a network has learned. Every network goes through every interpreter of the ``bench`` environment, float32
and int8, in turns in one process, so that ratios (with 95 % bootstrap intervals over rounds) survive a noisy machine.
Table 4's board columns are the paper's own estimates. Measured here and published never share a column.

Can be interrupted: exported networks are kept in --work, and networks are timed in groups of which each is recorded
when it is done. A group takes about two minutes, 15 in all, and exporting a network before one or two more. Begins once
the machine is quiet and ends with exit code 3 where it does not become so; a group beside which something else ran is
marked INVALID, and timed again by the next run. Records docs/results/bench/tables-3-4.json.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import json
import sys
from pathlib import Path
from typing import Any

from edgeveil.devices.timing import idle
from edgeveil.edge_runtime import machine
from edgeveil.trainer import benchmark
from scripts.reproduce import record
from scripts.reproduce.runtime import peer_networks

RESULT = Path("docs/results/bench/tables-3-4.json")
# recipe, shape of a reading, and the paper's experiment it stands for
OURS = {
    "mnist": ("mnist-prgan", (28, 28, 1), "MNIST"),
    "faces": ("faces-prgan", (48, 42, 1), "PubFig"),
    "wifi": ("wifi-prgan", (520,), "WiFi"),
    "depth-180": ("depth-prgan", (180, 180, 1), "OccuTherm"),
    # Four times as wide: as large as the peers, and so large that boards' published rows say something of it.
    "wide-180": ("depth-prgan", (180, 180, 1), ""),
}
WIDER = {"wide-180": 4}
BASE = "mobilenet-v1"
# Table 3: million MACs (the paper writes FLOP), million parameters. Table 4: inputs a second; all but the first column
# are the authors' regression from the GTX 1080 Ti.
PAPER_COST = {
    "MNIST": (1.6, 0.2354),
    "PubFig": (232, 0.6442),
    "WiFi": (2.1, 1.1),
    "OccuTherm": (96.4, 0.4203),
    "MobileNetV1": (575, 4.2),
    "ShuffleNet 1.5x": (292, 3.4),
    "NasNet-A": (564, 5.3),
    "MobileNetV2": (300, 3.4),
}
PAPER_SPEED = {
    "MNIST": (22100, 1700, 826.4, 3900),
    "PubFig": (372.0, 29.1, 10.7, 42.2),
    "WiFi": (36000, 2800, 1400, 6400),
    "OccuTherm": (595.8, 46.7, 19.1, 82.0),
}
PAPER_BOARDS = ("GTX 1080 Ti", "Jetson Nano (est.)", "RPi3 + NCS2 (est.)", "Coral Dev Board (est.)")


def our_network(name: str) -> Any:
    """An untrained generator of a recipe whose last layer is at random, so that no converter can leave it out."""
    import numpy as np

    from edgeveil.trainer.datasets.base import InputSpec
    from edgeveil.trainer.perturbers.prgan import build_generator
    from edgeveil.trainer.recipe.schema import Recipe

    recipe, shape, _ = OURS[name]
    kind = "vector" if len(shape) == 1 else "image"
    section = Recipe.find(recipe).perturber.generator
    section = section.model_copy(update={"width": section.width * WIDER.get(name, 1)})
    network = build_generator(InputSpec(kind, shape, "uint8", 0.0, 255.0), section)
    rng = np.random.default_rng(1)
    for weight in network.layers[-1].weights or network.weights[-2:]:
        weight.assign(rng.normal(0, 0.1, weight.shape).astype(np.float32))
    return network


def prepared(name: str, work: Path) -> list[dict[str, Any]]:
    """The four artefacts of a network, exported once."""
    if name in peer_networks.PEERS:
        return peer_networks.peer(name, work)
    if not (work / name / "done").exists():
        peer_networks.write_artefacts(our_network(name), work / name)
    return peer_networks.peer(name, work)


def timed(name: str, work: Path, rounds: int, seconds: float) -> dict[str, Any]:
    """A network in turns with the first peer, on every interpreter."""
    files = prepared(BASE, work)
    if name != BASE:
        files = files + prepared(name, work)
    return benchmark.run(files, rounds=rounds, seconds=seconds)


def costs(work: Path, names: list[str]) -> list[dict[str, Any]]:
    """Table 3: counted by us in the exported file, beside what the paper says."""
    from edgeveil.trainer.graphs.cost import file_cost

    rows = []
    for name in names:
        data = (work / name / "tflite-float32.tflite").read_bytes()
        rows.append({"network": name, **file_cost(data, "tflite").document()})
    return rows


def markdown(document: dict[str, Any]) -> list[str]:
    """Both tables."""
    from edgeveil.trainer.report.bench_tables import markdown as table

    stands = {name: paper for name, (_, _, paper) in OURS.items()}
    stands |= {"mobilenet-v1": "MobileNetV1", "mobilenet-v2": "MobileNetV2"}
    stands |= {"shufflenet-1.5": "ShuffleNet 1.5x", "nasnet-mobile": "NasNet-A"}
    three = []
    for row in document["costs"]:
        cells = [row["network"], f"{row['macs'] / 1e6:.2f}", f"{row['parameters'] / 1e6:.3f}", stands[row["network"]]]
        paper = PAPER_COST.get(stands[row["network"]])
        three.append([*cells, f"{paper[0]:g}", f"{paper[1]:g}"] if paper else [*cells, "", ""])
    measured = []
    for name, group in document["groups"].items():
        for row in group["rows"]:
            if row["name"] == name:
                r = row["ratio"]
                ratio = f"{1 / r['median']:.2f} ({1 / r['high']:.2f} to {1 / r['low']:.2f})"
                where = f"{row['backend']} {row['version']}"
                where += "" if group.get("verdict") == "VALID" else " (INVALID: busy)"
                measured.append([name, row["artefact"], where, f"{row['fps']:,.0f}", ratio])
        for row in group["refused"]:
            if row["name"] == name:
                measured.append([name, row["artefact"], row["backend"], "REFUSED", row["refused"]])
    paper = [[name, *(f"{v:,g}" for v in values)] for name, values in PAPER_SPEED.items()]
    return [
        "Table 3, counted\n\n"
        + table(["ours", "M MACs", "M parameters", "in the paper", "M MACs there", "M parameters there"], three),
        "Table 4, measured here\n\n"
        + table(["network", "artefact", "backend", "inputs/s", f"times {BASE} (95 %)"], measured),
        "Table 4, as published (est. = the authors' regression)\n\n" + table(["network", *PAPER_BOARDS], paper),
    ]


def main() -> int:
    """Time what is missing, then write both tables."""
    script = record.Script(__file__, __doc__, out=RESULT, timing=True)
    script.add_argument("--rounds", type=int, default=15)
    script.add_argument("--seconds", type=float, default=0.2, help="a turn")
    script.add_argument("--work", type=Path, default=Path("build/bench"))
    script.add_argument("--networks", nargs="*", default=[n for n in (*peer_networks.PEERS, *OURS) if n != BASE])
    script.add_argument("--again", action="store_true", help="time what was recorded before as well")
    options = script.parse_args()
    benchmark.bench_python()
    recorded: dict[str, Any] = {} if options.again else record.read(options.out).get("groups", {})
    for number, name in enumerate(options.networks, 1):
        if recorded.get(name, {}).get("verdict") != "VALID":
            for one in (BASE, name):
                prepared(one, options.work)  # before the machine is looked at: exporting makes it busy
            idle.begin(anyway=options.anyway)
            recorded[name] = timed(name, options.work, options.rounds, options.seconds)
            said = "; ".join(recorded[name]["reasons"]) or "VALID"
            print(f"{number} of {len(options.networks)}, {name}: {said}", file=sys.stderr)
        names = [BASE, *recorded]
        for one in names:
            prepared(one, options.work)
        document = {
            "schema": 1,
            "kind": "tables",
            "what": "Tables 3 and 4; each network in turns with the base, interpreters alone, one thread, UNTRAINED",
            "base": BASE,
            "costs": costs(options.work, names),
            "groups": recorded,
            "machine": machine.facts(),
        }
        document["markdown"] = markdown(document)
        record.write(options.out, script.path, document)
    print("\n\n".join(json.loads(options.out.read_text())["markdown"]))
    return 0 if all(group.get("verdict") == "VALID" for group in recorded.values()) else 3


if __name__ == "__main__":
    record.run(main)
