"""Fixed classifiers in bfloat16, while a perturber is trained against them: half the time where they are large.

Weights stay float32 and so do the losses; what is between has 8 bits of precision instead of 24. Checkpoints are
judged, and everything is audited, by the networks themselves.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgeveil.trainer.graphs.macs import keras_macs

LEAST_MACS = 10_000_000  # below, the time goes into other things than multiplying
NATIVE = {"avx512_bf16", "amx_bf16"}  # processors without these only imitate it, and are slower


def in_bfloat16(model: Any, *, processor: Path = Path("/proc/cpuinfo")) -> Any:
    """A network with the same weights that computes in bfloat16, from and to float32; ``model`` itself where that is
    no gain: it is small, or this ``processor`` (what Linux says of it) cannot.
    """
    if not NATIVE & _flags(processor) or keras_macs(model).macs < LEAST_MACS:
        return model
    import keras

    same = keras.models.clone_model(model, clone_function=_layer)
    same.set_weights(model.get_weights())
    return keras.Model(same.input, keras.layers.Activation("linear", dtype="float32")(same.output))


def _layer(layer: Any) -> Any:
    import keras

    config = layer.get_config()
    if not isinstance(layer, keras.layers.InputLayer):
        config["dtype"] = "mixed_bfloat16"
    return type(layer).from_config(config)


def _flags(processor: Path) -> set[str]:
    try:
        lines = processor.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    return {flag for line in lines if line.startswith("flags") for flag in line.partition(":")[2].split()}
