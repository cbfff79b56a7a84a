"""The mechanism of Duchi, Jordan and Wainwright for vectors of the cube, in O(d) and exact.

J. C. Duchi, M. I. Jordan, M. J. Wainwright, "Minimax Optimal Procedures for Locally Private Estimation", 2018,
section 4.2.3, for the l-infinity ball. With a = ln P/(1-P) of the coin T:

A vector v of d signs, d odd, and a fair vector z of d signs agree in most places or in fewest; never in half of them.
What leaves is z if "they agree in most" is T, else -z. So it is uniform over the half cube that agrees with v in most
places with probability P, and over the other with 1 - P: no two v give a report probabilities with another ratio than
P/(1-P), its inverse or 1. The published form for even d puts the vectors that agree in half of the places into both
halves, and is not a-private (ln(e^a + 1) = 1.313 at d = 2, a = 1). Here an even d has one more place, which is 1 in
every v and does not leave: what does leave of a private report is private.
"""

import numpy as np


def report(u: np.ndarray, rounding: np.ndarray, fair: np.ndarray, coin: np.ndarray) -> np.ndarray:
    """u float32 (n, d) of [0, 1] in, -1 or 1 int8 (n, d) out.

    ``rounding`` uint32 (n, ceil(d / 2)), ``fair`` uint32 (n, ceil(d' / 32)) with d' the odd one of d and d + 1,
    ``coin`` bool (n,). A value is rounded to 1 with probability u, to 2**-17.
    """
    d = u.shape[1]
    halves = np.ascontiguousarray(rounding, "<u4").view("<u2")[:, :d]
    # v as bits; 2**16 is above every word, so that u = 1 is always rounded up.
    v = halves < np.rint(u * np.float32(2**16)).astype(np.int32)
    z = np.unpackbits(np.ascontiguousarray(fair, "<u4").view(np.uint8), axis=1, bitorder="little")
    agree = (z[:, :d] == v).sum(axis=1, dtype=np.int16)
    odd = d + 1 - d % 2
    if odd > d:
        agree += z[:, d]
    turned = (agree > odd // 2) != coin
    return (z[:, :d] ^ turned[:, None]).astype(np.int8) * np.int8(2) - np.int8(1)
