"""The one reader of a Keras file, .keras or .h5: what is in it is looked at before Keras opens it.

Keras' safe mode (3.15) refuses Python lambdas and ``TFSMLayer``, and imports no module of a file's choice; what a
package of this process has registered it would run, and layers read files that their config names. Here a file is of
Keras' own layers, or refused. Nothing of it is ever unpickled.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.graphs.files import input_named

OURS = "edgeveil.models.layers"
# Layers with code of their own, and those that read files that their config names; what Keras makes of code and types.
FOREIGN = {"Lambda", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer", "StringLookup", "IntegerLookup"}
FOREIGN |= {"TextVectorization", "function", "__lambda__", "__typespec__"}
PARTS = ("layers", "initializers", "regularizers", "constraints", "activations", "dtype_policies", "models")
KERAS = ("keras.src.ops.", "keras.src.models.", "keras.src.layers.")
H5 = (".h5", ".hdf5")
REGISTERED = re.compile(r"(?!edgeveil>)[^\s>]+>[^\s>]+")
MOST_BYTES = 64 << 20  # of a config, which is read whole


def read(path: Path, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Any:
    """The model of a file, without its optimiser, found to be of Keras' own layers before it is opened.

    ``shapes`` gives inputs their sizes, the batch among them, by name. Raises ``BadInput``.
    """
    import keras

    import edgeveil.models.layers  # noqa: F401  registers its layers with Keras

    config(path)
    try:
        model = keras.saving.load_model(path, compile=False)
        if not shapes:
            return model
        names = [one.name for one in model.inputs]
        given = {input_named(name, names): shape for name, shape in shapes.items()}
        sized = [keras.Input(batch_shape=given.get(one.name, one.shape), name=one.name) for one in model.inputs]
        many = isinstance(model.input, list | tuple)
        return keras.models.clone_model(model, input_tensors=sized if many else sized[0])
    except (OSError, ValueError, TypeError, AttributeError, KeyError, ImportError) as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise BadInput(
            f"{path} cannot be read as a Keras model ({first}); write it with model.save(FILE.keras)."
        ) from None


def config(path: Path) -> Any:
    """The config of a file's model. Raises ``BadInput`` where the file is none, or would run code of its own."""
    try:
        document = json.loads(_h5_config(path) if path.suffix in H5 else _zip_config(path))
    except FileNotFoundError:
        raise BadInput(f"A model was expected at {path}; there is no such file.") from None
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, OSError, RecursionError, NotImplementedError):
        raise BadInput(
            f"{path} is no file of model.save(FILE.keras), and nothing else is read, a pickle least of all."
        ) from None
    if foreign := foreign_parts(document):
        raise BadInput(f"{path.name} has {foreign}, whose code would be run: build it of Keras' own layers.")
    return document


def _zip_config(path: Path) -> bytes:
    if path.suffix != ".keras":  # by which Keras chooses
        raise ValueError
    with zipfile.ZipFile(path) as archive:
        if archive.getinfo("config.json").file_size > MOST_BYTES:
            raise ValueError
        return archive.read("config.json")


def _h5_config(path: Path) -> Any:
    import h5py

    with path.open("rb") as file, h5py.File(file, "r") as opened:
        return opened.attrs["model_config"]


def tables(config: Any) -> Iterator[dict[str, Any]]:
    """Every table of a model's config, at any depth, but how it was compiled."""
    if isinstance(config, dict):
        yield config
        config = [part for key, part in config.items() if key not in ("compile_config", "build_config")]
    for part in config if isinstance(config, list) else ():
        yield from tables(part)


def foreign_parts(config: Any) -> str:
    """The parts that are not of Keras' own layers, by class; empty where there are none."""
    foreign = {name for one in tables(config) for name in _foreign(one)}
    return ", ".join(sorted(foreign - {"__lambda__"} or foreign))


def _foreign(one: dict[str, Any]) -> Iterator[str]:
    module, name = one.get("module"), one.get("class_name")
    known = module in (None, "keras", OURS, *(f"keras.{part}" for part in PARTS)) or str(module).startswith(KERAS)
    if name is not None and (str(name) in FOREIGN or not known):
        yield str(name)
    # What a package has registered, for which Keras looks first: a class, or a function as "activation".
    yield from (
        text.rpartition(">")[2] for text in one.values() if isinstance(text, str) and REGISTERED.fullmatch(text)
    )
