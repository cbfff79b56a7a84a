"""Tables 3 and 4 of PR-GAN: what the generators cost next to mobile networks, and how many inputs a second they take.

Ours are the generators of the recipes, the depth one at 180 x 180 and once four times as wide, untrained: time does not
depend on what a network has learned. Every network goes through every interpreter of the ``bench`` environment, float32
and int8, in turns in one process, so that ratios (with 95 % bootstrap intervals over rounds) survive a noisy machine.
What the paper prints is in scripts/tables/tables-3-4.toml.

Can be interrupted: exported networks are kept in --work, and networks are timed in groups of which each is recorded
when it is done. A group takes about two minutes, 15 in all, and exporting a network before one or two more. Begins once
the machine is quiet and ends with exit code 3 where it does not become so; a group next to which something else ran is
marked INVALID, and timed again by the next run. Records docs/results/bench/tables-3-4.json.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import sys
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime import machine
from edgeveil.trainer.cli import bench_command
from scripts import pages, record
from scripts.papers import peer_networks

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


def timed(name: str, work: Path, rounds: int) -> dict[str, Any]:
    """A network in turns with the first peer, on every interpreter."""
    files = prepared(BASE, work)
    if name != BASE:
        files = files + prepared(name, work)
    return bench_command.run(files, rounds=rounds)


def costs(work: Path, names: list[str]) -> list[dict[str, Any]]:
    """Table 3: counted by us in the exported file, next to what the paper says."""
    from edgeveil.trainer.graphs.cost import file_cost

    rows = []
    for name in names:
        data = (work / name / "tflite-float32.tflite").read_bytes()
        rows.append({"network": name, **file_cost(data, "tflite").document()})
    return rows


def main() -> int:
    """Time what is missing, then record both tables."""
    script = record.Script(__file__, __doc__, out=RESULT, timing=True)
    script.add_argument("--rounds", type=int, default=15)
    script.add_argument("--work", type=Path, default=Path("build/bench"))
    script.add_argument("--networks", nargs="*", default=[n for n in (*peer_networks.PEERS, *OURS) if n != BASE])
    script.add_argument("--again", action="store_true", help="time what was recorded before as well")
    options = script.parse_args()
    bench_command.bench_python()
    recorded: dict[str, Any] = {} if options.again else record.read(options.out).get("groups", {})
    for number, name in enumerate(options.networks, 1):
        if recorded.get(name, {}).get("verdict") != "VALID":
            for one in (BASE, name):
                prepared(one, options.work)  # before the machine is looked at: exporting makes it busy
            record.begin(anyway=options.anyway)
            recorded[name] = timed(name, options.work, options.rounds)
            outcome = "; ".join(recorded[name]["reasons"]) or "VALID"
            print(f"{number} of {len(options.networks)}, {name}: {outcome}", file=sys.stderr)
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
        document["markdown"] = list(pages.parts(pages.described("tables-3-4"), {"tables": document}))
        record.write(options.out, script.path, document)
    return 0 if all(group.get("verdict") == "VALID" for group in recorded.values()) else 3


if __name__ == "__main__":
    record.run(main)
