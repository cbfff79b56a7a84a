"""A folder as people have it: runs, one of them training, an export with its audit, a sweep, bundles, and odd ones."""

import json
from pathlib import Path

import numpy as np

from edgeveil.trainer.report.pictures import strip
from edgeveil.trainer.sealing.keys import keygen
from edgeveil.trainer.sealing.seal import seal
from tests.support import audit_documents, bundles

STRANGE = "<b>&\"'$(id) run"
RECIPE = '[perturber]\nkind = "prgan"\nalpha = {}\n[budget]\nepochs = 2\n'
FACTS = {
    **{"recipe": "mine", "budget": "quick", "seed": 7, "state": "finished", "created": "2026-11-28T12:00:00+00:00"},
    **{"wall_time_s": {"perturber": 90.0}, "validation": {"target_accuracy": 0.953}},
}


def line(step: int) -> str:
    """An epoch."""
    facts = {"stage": "target", "step": step, "time_s": float(step), "loss": 1 / step, "accuracy": 1 - 1 / (step + 1)}
    return json.dumps(facts)


def run(folder: Path, alpha: float = 3.0, **facts: object) -> Path:
    """A run of two epochs."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({**FACTS, **facts}))
    (folder / "recipe.toml").write_text(RECIPE.format(alpha))
    (folder / "metrics.jsonl").write_text(f"{line(1)}\n{line(2)}\n")
    return folder


def point(price: int, leak: float, right: float, **more: object) -> dict:
    """A point of a frontier."""
    around = {"low": -0.02, "high": 0.02}
    return {
        **{"point": f"p{price}", "recipe": "codebook", "floor": False, "settings": {"perturber.price": price}},
        "leak": {"name": "cnn", "accuracy": leak, **{end: leak + by for end, by in around.items()}},
        "target": {"accuracy": right, **{end: right + by for end, by in around.items()}},
        "kept": {"ink": {"correlation": right - 0.4, "low": 0.1, "high": 0.9}},
        **{"chance": {"majority": 0.5}, "verdict": {"word": "cannot tell"}, "data": "digits", **more},
    }


def made(folder: Path) -> Path:
    """The folder, filled."""
    for name, alpha in (("one", 3.0), ("two", 4.0), (STRANGE, 5.0)):
        run(folder / name, alpha)
    run(folder / "going", state="training")
    run(folder / ".hidden/one")
    run(folder.with_name("secret"), recipe="secret-recipe")
    (folder / "link").symlink_to(folder.with_name("secret"))
    (folder / "broken").mkdir()
    (folder / "broken/run.json").write_text("{}")
    (folder / "one-export").mkdir()
    (folder / "one-export/export.json").write_text(json.dumps({"run": "../one"}))
    (folder / "one-export/audit.json").write_text(json.dumps(audit_documents.document()))
    (folder / "broken/audit.json").write_text("{}")
    pictures = folder / "sweep/pictures"
    pictures.mkdir(parents=True)
    (pictures / "a.png").write_bytes(strip(np.arange(128.0).reshape(2, 8, 8, 1), 0.0, 128.0))
    rows = [
        point(1, 0.55, 0.97, pictures="a.png"),
        point(4, 0.65, 0.98, pictures="../pictures/a.png"),
        point(7, 0.75, 0.99),
        {"point": "p9", "recipe": "codebook", "settings": {"perturber.price": 9}, "failed": "it diverged"},
    ]
    frontier = {"schema": 1, "kind": "edgeveil-frontier", "budget": "quick", "attacks": "auto", "points": rows}
    (folder / "sweep/frontier.json").write_text(json.dumps(frontier))
    export = bundles.export_folder(folder.with_name("export"))
    keygen(folder / "sealed/keys", passphrase=None)
    seal(export, folder / "sealed/keys/signing.key", folder / "sealed/it.veil")
    (folder / "sealed/trust").mkdir()
    (folder / "sealed/trust/signing.pub").write_bytes((folder / "sealed/keys/signing.pub").read_bytes())
    (folder / "unknown.veil").write_bytes((folder / "sealed/it.veil").read_bytes())
    return folder
