"""scikit-learn's handwritten digits: 1,797 pictures of 8 x 8 pixels, 0 to 16, part of the library itself.

Source: E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998
(the test half), licence CC BY 4.0; read from the copy inside the installed package, as
sklearn.datasets.load_digits does, so nothing is downloaded. The same people wrote several digits each and the file does
not name them: rows are cut one by one.
"""

from __future__ import annotations

import gzip
import hashlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.readings import DataSet, Readings, digit_readings
from edgeveil.trainer.recipe.data_section import Data
from edgeveil.trainer.recipe.training_sections import Capture

# Of the pixels as uint8 (1797, 8, 8) followed by the digits as uint8, both in C order.
SHA256 = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"


class Digits(DataSet):
    """The handwritten digits of scikit-learn."""

    names = ("digits",)
    licence = "CC BY 4.0"
    sensor = "camera"

    @classmethod
    def read(cls, data: Data, capture: Capture | None) -> Readings:
        """See ``DataSet``."""
        return load(target=data.target, sensitive=data.sensitive)


def load(*, target: str, sensitive: str) -> Readings:
    """All 1,797 digits, uint8 (8, 8, 1) from 0 to 16. Raises ``BadInput`` for an attribute they do not have."""
    # The file alone: the library, with pandas and all of scipy, is a sixth of an export's time.
    library = find_spec("sklearn")
    if library is None or library.origin is None:
        raise BadInput("scikit-learn, which has the digits, is not installed: pip install 'edgeveil[trainer]'.")
    with gzip.open(Path(library.origin).parent / "datasets" / "data" / "digits.csv.gz", "rt") as file:
        rows = np.loadtxt(file, np.uint8, delimiter=",")
    x, digit = rows[:, :-1].reshape(-1, 8, 8), rows[:, -1]
    digest = hashlib.sha256(x.tobytes() + digit.tobytes()).hexdigest()
    if digest != SHA256:
        raise BadInput(
            f"Expected scikit-learn's digits with SHA-256 {SHA256}; got {digest}. "
            "Reinstall scikit-learn from the locked requirements."
        )
    return digit_readings(x, digit, target=target, sensitive=sensitive, high=16.0)
