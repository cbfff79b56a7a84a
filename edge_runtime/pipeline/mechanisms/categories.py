"""Mechanisms for one of k categories: noisy bits, and one entry of a Hadamard matrix.

``oue``: T. Wang and others, "Locally Differentially Private Protocols for Frequency Estimation", 2017. ``rappor``:
U. Erlingsson, V. Pihur, A. Korolova, "RAPPOR", 2014, with one bit for each category. ``hrr``: J. Acharya, Z. Sun,
H. Zhang, "Hadamard Response", 2019, in its one-bit form. An index that is too large counts as the last one: to drop it
would tell.
"""

import numpy as np


def bits(index: np.ndarray, own: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Indices int64 (n,) in, int8 (n, k) out: ``own`` bool (n,) at the index, ``others`` bool (n, k) elsewhere."""
    k = others.shape[1]
    there = np.minimum(index, k - 1)[:, None] == np.arange(k)
    return np.where(there, own[:, None], others).astype(np.int8)


def bits_again(first: np.ndarray, ones: np.ndarray, zeros: np.ndarray) -> np.ndarray:
    """Bits int8 (n, k) in and out: those of ``ones`` where they are 1, else those of ``zeros``, both bool (n, k)."""
    return np.where(first == 1, ones, zeros).astype(np.int8)


def hadamard(index: np.ndarray, row: np.ndarray, coin: np.ndarray, rows: int) -> np.ndarray:
    """Indices int64 (n,) in, 2 row + bit out, int64 (n,); ``row`` int64 (n,) below ``rows``, ``coin`` bool (n,).

    The bit says that H[row, index] = (-1)**(ones of row & index) is 1, or where the coin is false that it is -1.
    """
    common = row & np.minimum(index, rows - 1)
    for shift in (16, 8, 4, 2, 1):
        common = common ^ (common >> shift)
    return 2 * row + (((common & 1) == 0) == coin)
