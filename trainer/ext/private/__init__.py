"""Guards for the people a model was trained on: noise, accounting, estimators, and what a guarantee says.

The other packages of the trainer import these names alone.
"""

from edgeveil.trainer.ext.private.cover import DATA, HEAD, PUBLIC, head_mark, head_section, mark, promise, section
from edgeveil.trainer.ext.private.encoder import check as check_head
from edgeveil.trainer.ext.private.encoder import cross_entropy, guarded, noisy_pictures, train_encoder, unfitted
from edgeveil.trainer.ext.private.encoder import fit as fit_head
from edgeveil.trainer.ext.private.noise import Plan, Secret, clipped_sum, noisy_mean, noisy_means
from edgeveil.trainer.ext.private.per_example import Claim, Clipped

__all__ = [
    "DATA",
    "HEAD",
    "PUBLIC",
    "Claim",
    "Clipped",
    "Plan",
    "Secret",
    "check_head",
    "clipped_sum",
    "cross_entropy",
    "fit_head",
    "guarded",
    "head_mark",
    "head_section",
    "mark",
    "noisy_mean",
    "noisy_means",
    "noisy_pictures",
    "promise",
    "section",
    "train_encoder",
    "unfitted",
]
