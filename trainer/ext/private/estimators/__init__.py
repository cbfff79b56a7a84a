"""Private classifiers and regressions with scikit-learn's interface, each with the guarantee of its fit."""

from edgeveil.trainer.ext.private.estimators.dpsgd_classifier import DPSGDClassifier
from edgeveil.trainer.ext.private.estimators.functional import FunctionalLinearRegression, FunctionalLogisticRegression
from edgeveil.trainer.ext.private.estimators.lasso import PrivateLasso
from edgeveil.trainer.ext.private.estimators.pate import PATEClassifier
from edgeveil.trainer.ext.private.estimators.perturbed_risk import PrivateHuberSVM, PrivateLogisticRegression

__all__ = [
    "DPSGDClassifier",
    "FunctionalLinearRegression",
    "FunctionalLogisticRegression",
    "PATEClassifier",
    "PrivateHuberSVM",
    "PrivateLasso",
    "PrivateLogisticRegression",
]
