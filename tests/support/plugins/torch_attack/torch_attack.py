"""An attack by a network of PyTorch, as an installed package has it: loading the class needs no PyTorch."""

import importlib.util

import numpy as np


class TorchMlp:
    """A network of PyTorch on x' and y, stopped on rows of its own."""

    name = "PyTorch MLP"
    kind = "adaptive"
    seeded = True

    def why_not(self, problem):
        """Without PyTorch it is a row with the reason."""
        return None if importlib.util.find_spec("torch") else "PyTorch is not installed"

    def fit(self, problem, seed):
        """Train by Adam; of all epochs, the one that reads the stopping rows best is kept."""
        import torch

        problem = problem.capped(problem.budget.rows)
        mean, scale = problem.fit.x.mean(0), problem.fit.x.std(0) + 1e-6
        torch.manual_seed(seed)
        model = torch.nn.Sequential(
            torch.nn.Linear(mean.size + problem.theta.shape[0], 64),
            torch.nn.SiLU(),
            torch.nn.Linear(64, problem.z_classes),
        )
        fitted = Fitted(model, mean, scale, problem.theta.shape[0], len(problem.fit) + len(problem.stop))
        adam, loss = torch.optim.Adam(model.parameters(), 1e-2), torch.nn.CrossEntropyLoss()
        (u, z), (stop, held) = ((fitted.seen(part), torch.tensor(part.z)) for part in (problem.fit, problem.stop))
        best, kept = np.inf, model.state_dict()
        for _ in range(10 * problem.budget.epochs):
            for rows in torch.randperm(len(u)).split(128):
                adam.zero_grad()
                loss(model(u[rows]), z[rows]).backward()
                adam.step()
            with torch.no_grad():
                now = float(loss(model(stop), held))
            if now < best:
                best, kept = now, {name: value.clone() for name, value in model.state_dict().items()}
        model.load_state_dict(kept)
        return fitted


class Fitted:
    """The trained network, and how samples are put before it."""

    def __init__(self, model, mean, scale, y_classes, train_samples):
        self.model, self.mean, self.scale, self.y_classes = model, mean, scale, y_classes
        self.train_samples = train_samples

    def seen(self, part):
        """x' standardised and y one-hot, a tensor (n, d)."""
        import torch

        x = ((part.x - self.mean) / self.scale).reshape(len(part), -1)
        return torch.tensor(np.concatenate([x, np.eye(self.y_classes)[part.y]], axis=1), dtype=torch.float32)

    def probabilities(self, part):
        """P(z | x', y) of each row, (n, classes of z)."""
        import torch

        with torch.no_grad():
            return torch.softmax(self.model(self.seen(part)).double(), 1).numpy()
