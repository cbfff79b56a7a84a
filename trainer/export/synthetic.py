"""Readings drawn by a formula, for golden vectors: nobody's data rides along in a bundle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def images(shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """24 pictures (24, *shape) in [0, 1] or a little beyond: ramps, checks, noise, blobs, strokes."""
    height, width, _ = shape
    y, x = np.meshgrid(np.linspace(0, 1, height), np.linspace(0, 1, width), indexing="ij")
    flat = [np.zeros_like(x), np.ones_like(x), x, y, (x + y) / 2, 1 - np.hypot(x - 0.5, y - 0.5) * 1.4]
    flat += [(np.add.outer(np.arange(height), np.arange(width)) % 2).astype(float), (np.sin(12 * x) + 1) / 2]
    flat += [rng.random((height, width)) for _ in range(4)]
    flat += [(rng.random((height, width)) < 0.15).astype(float) for _ in range(2)]
    flat += [_blobs(x, y, rng) for _ in range(6)]
    flat += [_stroke(x, y, rng) for _ in range(4)]
    # A tint per channel, so that a mix-up of channels shows.
    return np.stack(flat)[..., None] * np.linspace(1.0, 0.5, shape[2])


def _blobs(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    total = np.zeros_like(x)
    for _ in range(rng.integers(2, 5)):
        across, down, radius = rng.random(), rng.random(), rng.uniform(0.05, 0.25)
        total += rng.uniform(0.5, 1) * np.exp(-((x - across) ** 2 + (y - down) ** 2) / (2 * radius**2))
    return total


def _stroke(x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    angle, offset = rng.uniform(0, np.pi), rng.uniform(-0.2, 0.2)
    away = np.abs((x - 0.5) * np.sin(angle) - (y - 0.5) * np.cos(angle) + offset)
    return np.clip(1.5 - away / 0.08, 0, 1)


def vectors(shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """48 vectors (48, features) in [0, 1]: ramps, noise, and few features at some strength."""
    (features,) = shape
    ramp = np.linspace(0, 1, features)
    rows = [np.zeros(features), np.ones(features), ramp, 1 - ramp, np.arange(features) % 2, np.abs(2 * ramp - 1)]
    rows += [rng.random(features) for _ in range(8)]
    rows += [(rng.random(features) < share).astype(float) for share in (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)]
    rows += [(np.abs(ramp - rng.random()) < 0.15).astype(float) for _ in range(4)]
    # Few features at some strength, as fingerprints are: int8 has no range for rows far from any reading.
    for share in np.repeat([0.01, 0.02, 0.04], 8):
        few = rng.choice(features, max(1, round(share * features)), replace=False)
        rows.append(np.zeros(features))
        rows[-1][few] = rng.uniform(0.1, 0.7, len(few))
    return np.stack(rows)
