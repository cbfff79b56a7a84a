"""The samples from which the receiver of a codebook's codes draws x': any of a code, not its most typical ones.

Typical donors keep most of T, so a device shows them. Networks that learn on x' need what is unusual too. What leaks is
the code, whichever of its samples are drawn.
"""

from __future__ import annotations

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.perturbers.codebook.synthesis import any_of, check_consent
from edgeveil.trainer.recipe.perturber import Codebook
from edgeveil.trainer.runs.run import Run
from edgeveil.trainer.tensorflow_quiet import load_tensorflow

MOST = 4096  # samples of a code, as for donors


def receiver_pool(run: Run, size: int) -> np.ndarray:
    """Raw samples (codes, size, *shape) of a finished run's training slices, drawn evenly of each code by its seed.

    Raises ``BadInput`` for a perturber that shows no donors, a ``size`` out of range, and samples without consent.
    """
    section = run.recipe.perturber
    if not isinstance(section, Codebook) or section.synthesis != "donor":
        raise BadInput(
            "--pool is for a codebook whose pictures are real samples: in this run's recipe `perturber.synthesis` is "
            'not "donor". Leave --pool out.'
        )
    if not 1 <= size <= MOST:
        raise BadInput(f"--pool expected 1 to {MOST} samples of each code; got {size}.")
    dataset = run.dataset()
    allowed = check_consent(dataset.consent, public=section.public_data)
    first, second = fit_and_validation(dataset, "classifiers")[0], fit_and_validation(dataset, "perturber")[0]
    rows = dataset.rows(np.concatenate([first.index, second.index]))
    load_tensorflow()
    sent = run.perturber().perturb(rows.x)
    chosen = any_of(
        sent["code"],
        sent["label"] == rows.y,
        codes=len(dataset.y_names) * section.codes,
        per_class=section.codes,
        copies=size,
        allowed=None if allowed is None else allowed[rows.index],
        rng=np.random.default_rng([run.recipe.seed, 3]),
    )
    return rows.x[chosen].reshape(-1, size, *dataset.input.shape)
