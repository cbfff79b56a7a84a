"""A frozen benchmark set: the outputs of one artefact, with labels and slices, for others to attack.

::

    x          (n, *shape)  x' as it left
    beside     (n, k)       every further output, one-hot; only where there is one
    y, z       (n,)         class numbers; the values of z are not named
    slice      (n,)         0 classifiers, 1 perturber, 2 test, 3 attack: 0 and 1 trained the perturber, 3 did not;
                            learn on 0, 1 and 3, report on 2
    unit       (n,)         which subject or session a row is of; only where that is known
    theta      (classes of y, classes of z)  the public prior P(z|y)
    about      text, JSON: artefact and its hashes, data set, licence note

No original sample is in it, unless the perturber passed it unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.storage.atomic import atomic_path
from edgeveil.trainer.audit.open import Opened
from edgeveil.trainer.audit.subject import KERAS, as_received, released_rows, run_artefact
from edgeveil.trainer.datasets.base import PARTS, SliceName

SCHEMA = 1
NUMBERS: Mapping[SliceName, int] = {"classifiers": 0, "perturber": 1, "test": 2, "attack": 3}
TASK = (
    "Infer z from x and y. Slices 0 and 1 trained the perturber, slice 3 did not: learn on any of them, choose on "
    "slice 3, report on slice 2."
)
TASK_OF_THREE = "Infer z from x and y. Learn on slices 0 and 1, choose there too, report on slice 2."
# What the publishers of each data set state. All others need a recipe that states `data.public = true`.
LICENCES = {
    "digits": "CC BY 4.0: E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, 1998",
    "wifi": "CC BY 4.0: J. Torres-Sospedra et al., UJIIndoorLoc, UCI Machine Learning Repository, data set 310",
    "wrist": "BSD 3-clause: D. M. Burns, in the package seglearn 1.2.5",
}
UNCLEAR = {
    "mnist": "its publishers state no licence",
    "faces": "it is free for research with acknowledgement, and not to be passed on in a product",
    "depth": "it is called freely available, and no licence comes with it",
    "utd-mhad": "it is called freely available, and no licence comes with it",
    "scene": "Mulan states no licence for it",
    "wq": "Mulan states no licence for it",
}


def write_frozen(opened: Opened, out: Path) -> Path:
    """Perturb every row of the run's slices with what was opened, and write them to ``out``, whole or not at all.

    Raises ``BadInput`` for data that may not be passed on, for the Keras networks, which never ship, and where ``out``
    exists.
    """
    subject, run = opened.subject, opened.run
    if subject.artefact == KERAS:
        raise BadInput(
            "A benchmark set needs an artefact that ships, and the Keras networks never do: name tflite-int8, or the "
            "artefact that goes onto the board."
        )
    if Path(out).exists():
        raise BadInput(f"{out} exists, and a frozen set is never changed: name another file.")
    licence = _licence(run.recipe.data)
    dataset = run.dataset()
    rows = dataset.slices.rows()
    outputs, backends = run_artefact(subject, dataset.x[rows], run.folder / "audit-cache")
    declared, received = as_received(subject, outputs)
    left = released_rows(declared, received, dataset, rows)
    about = {
        "schema": SCHEMA,
        "kind": "edgeveil-frozen",
        "artefact": subject.artefact,
        "speaks_of": subject.sha256(),
        "backends": backends,
        "perturber": subject.manifest["perturber"]["kind"],
        "data": dataset.name,
        "target": run.recipe.data.target,
        "sensitive": run.recipe.data.sensitive,
        "licence": licence,
        "task": TASK if len(dataset.slices.attack) else TASK_OF_THREE,
    }
    arrays: dict[str, Any] = {
        "x": left.x,
        "y": left.y,
        "z": left.z,
        "slice": np.repeat(
            np.array([NUMBERS[name] for name in PARTS], np.uint8), [len(dataset.part(name)) for name in PARTS]
        ),
        "theta": dataset.theta,
        "about": np.array(json.dumps(about, sort_keys=True)),
    }
    if left.also is not None:
        arrays["beside"] = left.also
    if left.cluster is not None:
        arrays["unit"] = left.cluster
    try:
        with atomic_path(str(out)) as temporary, Path(temporary).open("wb") as file:
            np.savez_compressed(file, **cast(Any, arrays))
    except OSError as error:
        raise BadInput(f"Cannot write {out}: {error.strerror}. Name a file in a folder that can be written.") from None
    return Path(out)


def about(path: Path) -> Mapping[str, Any]:
    """The description in a frozen set."""
    with np.load(path, allow_pickle=False) as file:
        return json.loads(str(file["about"]))


def _licence(data: Any) -> str:
    """A note on what may be done with the set. Raises ``BadInput`` unless it is known that it may be passed on."""
    source = data.own[0] if data.own else data.source
    known = LICENCES.get(source)
    if known is not None:
        return known
    reason = UNCLEAR.get(source, "it is your own")
    if not data.public:
        raise BadInput(
            f"It is not known whether the data set {source!r} may be passed on, even perturbed: {reason}. If it may, "
            "write `public = true` into [data] of the run's recipe.toml."
        )
    return f"The recipe states that these data are public; of {source!r} itself: {reason}."
