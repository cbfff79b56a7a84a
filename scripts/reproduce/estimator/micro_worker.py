"""Run by the Python that has tflite-micro: an int8 TFLite file on TensorFlow Lite Micro.

The folder has ``model.tflite`` and ``rows.npz``, an int8 array (n, ...) for each input by its number. It gets
``outputs.npz``, by the numbers of the outputs.
"""

import importlib
from pathlib import Path
from typing import Any

import numpy as np

ARENA = 64 * 2**20


def main(folder: Path, outputs: int) -> None:
    """Run all rows, one at a time."""
    runtime = importlib.import_module("tflite_micro.python.tflite_micro.runtime")
    with np.load(str(folder / "rows.npz")) as file:
        rows = [file[str(place)] for place in range(len(file.files))]
    interpreter = runtime.Interpreter.from_file(str(folder / "model.tflite"), arena_size=ARENA)
    found = []
    for number in range(len(rows[0])):
        for place, values in enumerate(rows):
            interpreter.set_input(values[number : number + 1], place)
        interpreter.invoke()
        found.append([np.array(interpreter.get_output(place)) for place in range(outputs)])
    kept: Any = {str(place): np.concatenate([one[place] for one in found]) for place in range(outputs)}
    np.savez(str(folder / "outputs.npz"), **kept)
