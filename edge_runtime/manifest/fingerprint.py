"""One hash of all that determines a pipeline's output, so that an audit of another pipeline does not match.

The hash of a model alone is not enough: the same encoder with another table of donors, another channel or one more
stage gives other outputs. So the hash covers all that x' depends on: the input, every stage and output, the rules for
streams and capture, the promise, the counts and their detector where there are any, every table, and in one variant
every model's file and its tensors.
"""

import hashlib
from typing import Any, Dict, Mapping

from edgeveil.edge_runtime.formats import strict_json

PARTS = ("input", "stages", "outputs", "stream", "capture")
FURTHER = ("spending", "count", "detector")


def pipeline_sha256(manifest: Dict[str, Any], variant: str, tables: Mapping[str, str]) -> str:
    """The SHA-256 of the pipeline of a manifest in one of its variants, 64 hexadecimal digits.

    ``tables`` is the SHA-256 of each table's file, by the name of the table. Without models any variant is the same.
    docs/reference/bundle-format.md spells out what is hashed.
    """
    models = {}
    for name, model in manifest["models"].items():
        artefact = model["artefacts"][variant]
        models[name] = {key: artefact[key] for key in ("sha256", "inputs", "outputs")}
    described = {part: manifest.get(part) for part in PARTS}
    for part in FURTHER:
        if part in manifest:  # else as ever: a bundle without a promise or counts keeps its hash
            described[part] = manifest[part]
    described["models"] = models
    described["tables"] = {
        name: {"sha256": tables[name], "shape": table["shape"], "dtype": table["dtype"]}
        for name, table in manifest["tables"].items()
    }
    return hashlib.sha256(strict_json.dumps(described)).hexdigest()
