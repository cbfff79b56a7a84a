"""MNIST: 70,000 handwritten digits of 28 x 28 pixels; its 60,000 and 10,000 pooled, as paper 001 does (section 6.1).

Source: Y. LeCun, C. Cortes, C. J. C. Burges, "The MNIST database of handwritten digits", 1998; cite LeCun, Bottou,
Bengio, Haffner, "Gradient-based learning applied to document recognition", Proc. IEEE 86(11), 1998. Its publishers
state no licence; mirrors often quote CC BY-SA 3.0. The four idx files are read from ``$EDGEVEIL_DATA/mnist``, else from
the user's cache, and downloaded to it if missing; their SHA-256 is always checked. The files do not name the writers,
so rows are cut one by one.
"""

from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.readings import DataSet, Readings, digit_readings
from edgeveil.trainer.recipe.data_section import Data
from edgeveil.trainer.recipe.training_sections import Capture

ADDRESS = "https://ossci-datasets.s3.amazonaws.com/mnist/"
HEADER = {"images": 16, "labels": 8}  # bytes: magic number and dimensions, known once the checksum holds


class Mnist(DataSet):
    """MNIST."""

    names = ("mnist",)
    licence = "none stated by its publishers; mirrors often quote CC BY-SA 3.0"
    sensor = "camera"
    downloaded = True
    files = {  # images, then labels, each in the order they are pooled
        "mnist/train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "mnist/t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "mnist/train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "mnist/t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    }

    @classmethod
    def read(cls, data: Data, capture: Capture | None) -> Readings:
        """See ``DataSet``."""
        return load(target=data.target, sensitive=data.sensitive)


def load(*, target: str, sensitive: str) -> Readings:
    """All 70,000 digits, uint8 (28, 28, 1) from 0 to 255. Raises ``BadInput`` for missing or other files."""
    data = {
        kind: b"".join(_read(path)[start:] for path in Mnist.files if kind in path) for kind, start in HEADER.items()
    }
    x = np.frombuffer(data["images"], np.uint8).reshape(-1, 28, 28)
    return digit_readings(x, np.frombuffer(data["labels"], np.uint8), target=target, sensitive=sensitive, high=255.0)


def _read(place: str) -> bytes:
    given = os.environ.get("EDGEVEIL_DATA")
    name, digest = Path(place).name, Mnist.files[place]
    path = Path(given) / place if given else None
    if path is None or not path.is_file():
        path = _fetch(name, digest)
    packed = path.read_bytes()
    checksum = hashlib.sha256(packed).hexdigest()
    if checksum != digest:
        raise BadInput(
            f"{path} is not MNIST's {name}: expected SHA-256 {digest}, got {checksum}. Remove it to download it again, "
            "or put the right file there."
        )
    return gzip.decompress(packed)


def _fetch(name: str, digest: str) -> Path:
    import pooch

    cache = Path(pooch.os_cache("edgeveil")) / "mnist"
    try:
        return Path(pooch.retrieve(ADDRESS + name, known_hash=f"sha256:{digest}", fname=name, path=cache))
    except (OSError, ValueError) as error:  # requests' errors are OSErrors; a wrong checksum is a ValueError
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise BadInput(
            f"MNIST's {name} was expected in $EDGEVEIL_DATA/mnist or {cache}, and could not be downloaded ({reason}). "
            "Put the four idx .gz files into either folder."
        ) from None
