"""Noise that guards training data: float64, from a stream of AES-CTR that the operating system keys.

The generators of numpy and TensorFlow are not secret: who sees enough of their output can tell the rest of it.
``Secret`` is for every claim; ``Seeded`` has the same laws from a seed, for tests, and carries no claim.

Float64 noise is not exact: the last bits of a sum tell something of what was added to (Mironov 2012). Laplace noise is
OpenDP's, which is safe against that; for the others the guarantee says that it leaves this out.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

KEY_BYTES, BLOCK_BYTES = 32, 16


class Noise(ABC):
    """Draws from the laws that private training needs."""

    private: bool  # whether a claim of privacy may rest on it

    @abstractmethod
    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        """Independent values above 0 and up to 1, float64 ``shape``."""

    @abstractmethod
    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """``values`` (n,) plus independent Laplace noise of that scale, float64 (n,)."""

    def gaussian(self, shape: tuple[int, ...], sigma: float) -> np.ndarray:
        """Independent normal values of mean 0 and deviation ``sigma``, by Box and Muller (1958)."""
        count = math.prod(shape)
        pairs = self.uniform((2, (count + 1) // 2))
        radius, angle = np.sqrt(-2 * np.log(pairs[0])), 2 * np.pi * pairs[1]
        values = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
        return sigma * values[:count].reshape(shape)

    def direction(self, size: int) -> np.ndarray:
        """A unit vector (size,), every direction equally likely."""
        vector = self.gaussian((size,), 1.0)
        return vector / np.linalg.norm(vector)

    def radial(self, size: int, scale: float) -> np.ndarray:
        """A vector b (size,) of density proportional to exp(-|b| / scale): |b| ~ Gamma(size, scale)."""
        length = -scale * np.log(self.uniform((size,))).sum()  # a sum of exponentials, one for each dimension
        return length * self.direction(size)


class Secret(Noise):
    """Noise that nobody can repeat."""

    private = True

    def __init__(self) -> None:
        cipher = Cipher(algorithms.AES(os.urandom(KEY_BYTES)), modes.CTR(os.urandom(BLOCK_BYTES)))
        self._stream = cipher.encryptor()

    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        """53 bits of the stream for each value."""
        words = np.frombuffer(self._stream.update(bytes(8 * math.prod(shape))), np.uint64)
        return (((words >> np.uint64(11)).astype(np.float64) + 1) * 2.0**-53).reshape(shape)

    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """OpenDP's, exact on the grid of float64, with noise of the operating system."""
        import opendp.prelude as dp

        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
        return np.array(dp.m.make_laplace(*space, scale=scale)(np.asarray(values, np.float64).tolist()))


class Seeded(Noise):
    """The same laws from a seed."""

    private = False

    def __init__(self, seed: int | np.random.Generator | np.random.RandomState) -> None:
        self._random = np.random.default_rng(seed) if isinstance(seed, int | np.integer) else seed

    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        """1 less what numpy draws, which is 0 and below 1."""
        return 1 - self._random.uniform(size=shape)

    def laplace(self, values: np.ndarray, scale: float) -> np.ndarray:
        """numpy's."""
        return np.asarray(values, np.float64) + self._random.laplace(scale=scale, size=np.shape(values))
