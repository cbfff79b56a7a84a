"""The example of docs/explanation/adversaries.md, as an installed package has it."""

import numpy as np
from sklearn.neighbors import KNeighborsClassifier


class Nearest:
    """The z of the nearest training rows with the same y."""

    name = "15 nearest"
    kind = "adaptive"  # learns from x'; "transfer" learns from problem.clean alone
    seeded = False  # True: runs once for every seed of the budget

    def why_not(self, problem):
        """Why it cannot attack these data, or None."""
        return None if len(problem.fit) >= 100 else "needs 100 rows"

    def fit(self, problem, seed):
        """Learn from problem.fit (and stop by problem.stop); choose and test are for others."""
        part = problem.capped(problem.budget.rows).fit
        model = KNeighborsClassifier(15).fit(features(part), part.z)
        return Fitted(model, problem.z_classes, len(part))


class Fitted:
    def __init__(self, model, z_classes, train_samples):
        self.model, self.z_classes, self.train_samples = model, z_classes, train_samples

    def probabilities(self, part):
        """P(z | x', y) of each row, (n, classes of z)."""
        out = np.zeros((len(part), self.z_classes))
        out[:, self.model.classes_] = self.model.predict_proba(features(part))
        return out


def features(part):
    far = 1e3 * part.y[:, None]  # another y is never near
    return np.concatenate([part.x.reshape(len(part), -1).astype(float), far], axis=1)
