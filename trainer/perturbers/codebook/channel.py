"""The channel Q(c'|c) of a codebook that is held: c' is independent of c.

A channel never changes the class y-hat, so it is one block per class. It ships as integers: every row of the table sums
to the same power of two, and the certificate is computed on these integers.
"""

from __future__ import annotations

import numpy as np

from edgeveil.edge_runtime.errors import BadInput

TOTAL_BITS = 16  # every row of the shipped table sums to 2**16


def integers(q: np.ndarray) -> np.ndarray:
    """The shipped table uint32: each row of q (R, C) as integers that sum to 2**TOTAL_BITS, by largest remainders.

    A probability of 0 stays 0; no other is off by more than 2**-TOTAL_BITS. Rows that are equal stay equal, so an
    independent channel stays exactly independent. Raises ``BadInput`` where a row has more than 2**TOTAL_BITS entries.
    """
    total = 2**TOTAL_BITS
    if q.shape[1] > total:
        raise BadInput(f"A channel table has at most {total} codes; got {q.shape[1]}. Set fewer `perturber.codes`.")
    exact = q / q.sum(axis=1, keepdims=True) * total
    table = np.floor(exact).astype(np.int64)
    # Ties by position, the same in every row.
    order = np.argsort(-(exact - table), axis=1, kind="stable")
    missing = total - table.sum(axis=1)
    one_more = np.arange(q.shape[1]) < missing[:, None]
    np.put_along_axis(table, order, np.take_along_axis(table, order, axis=1) + one_more, axis=1)
    return table.astype(np.uint32)


def donors_within(codes: int, copies: int) -> np.ndarray:
    """The table uint32 (codes, codes * copies) that picks one of ``copies``, a power of two, evenly for each code."""
    if copies < 1 or copies & (copies - 1):
        raise BadInput(f"The number of donors of each code must be a power of two; got {copies}.")
    return np.kron(np.eye(codes, dtype=np.uint32), np.ones((1, copies), np.uint32))
