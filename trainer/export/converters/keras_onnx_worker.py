"""Run with ``KERAS_BACKEND=torch``: a Keras model as ONNX by ``torch.onnx``.

    python -m edgeveil.trainer.export.converters.keras_onnx_worker FOLDER OUTPUT,... NAME=(1,...)...

``FOLDER`` has ``model.keras``, and gets ``model.onnx``. Of each input its name and its shape, in order.
"""

import ast
import logging
import sys
import warnings
from pathlib import Path

import keras
import torch

import edgeveil.models.layers  # noqa: F401 - the layers that a model may have


def main(folder: Path, outputs: list[str], inputs: dict[str, tuple[int, ...]]) -> None:
    """Export at opset 18, constants folded. Raises what Keras or torch raises."""
    model = keras.saving.load_model(folder / "model.keras", compile=False)
    model.eval()
    samples = [torch.zeros(shape) for shape in inputs.values()]
    given = (samples[0],) if len(samples) == 1 else (samples,)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            model, given, dynamo=True, opset_version=18, input_names=list(inputs), output_names=outputs, verbose=False
        )
        program.optimize()
        program.save(folder / "model.onnx")


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    shapes = dict(word.split("=", 1) for word in sys.argv[3:])
    main(Path(sys.argv[1]), sys.argv[2].split(","), {name: ast.literal_eval(one) for name, one in shapes.items()})
