"""Made-up publications of linked frames, whose leak is known."""

import numpy as np

from edgeveil.trainer.ext.publish.published import Published


def made(*, shift=0.0, shape=False, column=False, people=300, each=10, linked=True, z_of_rows=False, seed=0):
    """A publication of noise (4, 4, 1), and z (rows,) of two values.

    ``shift`` moves one value of all frames of z = 1; ``shape``: another value is -1 or 1 where z = 0, and has the same
    mean and deviation where z = 1; ``column``: a column says z of three rows in four.
    """
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(people), each)
    rows = len(person)
    z = rng.integers(0, 2, rows) if z_of_rows else rng.integers(0, 2, people)[person]
    x = rng.normal(size=(rows, 4, 4, 1)).astype(np.float32)
    x[:, 0, 0, 0] += shift * z
    if shape:
        far = rng.choice([-2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0], rows)
        x[:, 1, 0, 0] = np.where(z == 1, far, rng.choice([-1.0, 1.0], rows))
    columns = {"age": [str(one) for one in rng.integers(0, 5, people)[person]]}
    if column:
        columns["told"] = [str(one) for one in np.where(rng.random(rows) < 0.75, z, 1 - z)]
    return Published(np.arange(rows), {"x": x}, columns, person.tolist(), linked), [str(one) for one in z]
