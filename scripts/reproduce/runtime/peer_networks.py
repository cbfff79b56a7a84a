"""The peer networks of paper 001's Table 3, as artefacts to time generators against.

Keras builds them, or we where Keras has none, with random weights: time does not depend on what a network has learned.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.trainer.benchmark import ARTEFACTS, model_file

# name here: Keras's builder, or None for our own. Each takes 224 x 224 x 3.
PEERS = {
    "mobilenet-v1": "MobileNet",
    "mobilenet-v2": "MobileNetV2",
    "shufflenet-1.5": None,
    "nasnet-mobile": "NASNetMobile",
}


def _file_name(artefact: str) -> str:
    return f"{artefact}.{artefact.partition('-')[0]}"


def peer(name: str, cache: Path) -> list[dict[str, Any]]:
    """A network of Table 3 in four artefacts, from ``cache`` or built now (half a minute)."""
    folder = cache / name
    if not (folder / "done").exists():
        _build(name, folder)
    found = [model_file(folder / _file_name(artefact)) for artefact in ARTEFACTS]
    return [{**one, "name": name, "artefact": artefact} for one, artefact in zip(found, ARTEFACTS, strict=True)]


def _build(name: str, folder: Path) -> None:
    write_artefacts(peer_network(name), folder)


def peer_network(name: str) -> Any:
    """The Keras network of a peer, untrained."""
    import keras

    from scripts.reproduce.runtime.shufflenet import shufflenet

    builder = PEERS[name]
    return shufflenet() if builder is None else getattr(keras.applications, builder)(weights=None)


def write_artefacts(network: Any, folder: Path) -> None:
    """A Keras network as float32 and int8 TFLite and ONNX files in ``folder``."""
    from edgeveil.trainer.export.convert import to_onnx, to_tflite

    rows = np.random.default_rng(0).random((8, *network.inputs[0].shape[1:]), np.float32)
    rows[0], rows[1] = 0, 1
    feeds = {network.inputs[0].name: rows}
    folder.mkdir(parents=True, exist_ok=True)
    for kind, module in (("tflite", to_tflite), ("onnx", to_onnx)):
        for precision, data in module.convert(network, ("float32", "int8"), feeds).items():
            artefact = f"{kind}-{precision}"
            (folder / _file_name(artefact)).write_bytes(data)
    (folder / "done").touch()
