"""The one verifier of Ed25519 signatures (RFC 8032, section 5.1.7), in pure Python and strict.

Every value of a verification is public, so no care is taken about timing.

What is checked beyond the equation, so that no signature can be turned into a second one without the private key:

* the key is a canonical encoding (y < p, no "negative zero") of a point on the curve, and not of small order:
  for a key of order 1, 2, 4 or 8 anyone can make "signatures";
* S < L, the group order: otherwise S + L would be a second signature;
* R is the canonical encoding of S B - h A (it is compared as bytes, so no other encoding of it passes), and not of
  small order.

The equation is the one without the cofactor, the same that `cryptography` (OpenSSL) checks. Points are kept in extended
coordinates (X, Y, Z, T) with x = X/Z, y = Y/Z, xy = T/Z (Hisil, Wong, Carter, Dawson 2008, with a = -1); the double
scalar multiplication goes four bits at a time and shares its doublings. One verification takes some milliseconds on a
desktop and some tens of them on a small board.
"""

import hashlib
from typing import List, Tuple

P = 2**255 - 19  # the field
L = 2**252 + 27742317777372353535851937790883648493  # the order of the base point
# Written out: to compute -121665 / 121666, a root of -1 and the base point would take a millisecond of every start.
D = 37095705934669439343138083508754565189542113879843219016388785533085940283555  # -x^2 + y^2 = 1 + D x^2 y^2
ROOT_OF_MINUS_ONE = 19681161376707505956807079304988542015446066515923890162744021073123829784752

Point = Tuple[int, int, int, int]

NEUTRAL: Point = (0, 1, 1, 0)
_X = 15112221349535400772501151409588531511454012693041857206046113283949847762202
_Y = 46316835694926478169428394003475163141307993866256225615783033603165251855960
BASE: Point = (_X, _Y, 1, _X * _Y % P)  # y = 4/5, x even


class Rejected(ValueError):
    """A key or a signature is not acceptable. ``reason`` is one of the words in the table below.

    ``length``, ``key-encoding``, ``key-small-order``, ``s-range``, ``r-small-order``, ``equation``.
    """

    def __init__(self, reason: str) -> None:
        super(Rejected, self).__init__(reason)
        self.reason = reason


def check_public_key(public_key: bytes) -> None:
    """Raise :class:`Rejected` unless these 32 bytes are a key that a signature can be trusted with."""
    _key_point(public_key)


def public_of(seed: bytes) -> bytes:
    """The public key (32 bytes) of a private one (32 bytes). The time that it takes depends on the key."""
    scalar = int.from_bytes(hashlib.sha512(seed).digest()[:32], "little") & ~7 & (2**255 - 1) | 2**254
    return _encode(_two_products(scalar, BASE, 0, NEUTRAL))


def verify(public_key: bytes, message: bytes, signature: bytes) -> None:
    """Return if ``signature`` (64 bytes) is the one of ``message`` by ``public_key`` (32 bytes).

    Raises :class:`Rejected` else, and never answers False, so that a forgotten ``if`` cannot let anything in.
    """
    if len(signature) != 64:
        raise Rejected("length")
    minus_a = _negative(_key_point(public_key))
    encoded_r = signature[:32]
    s = int.from_bytes(signature[32:], "little")
    if s >= L:
        raise Rejected("s-range")
    h = int.from_bytes(hashlib.sha512(encoded_r + public_key + message).digest(), "little") % L
    r = _two_products(s, BASE, h, minus_a)
    if _encode(r) != encoded_r:
        raise Rejected("equation")
    if _is_small_order(r):
        raise Rejected("r-small-order")


def _key_point(public_key: bytes) -> Point:
    if len(public_key) != 32:
        raise Rejected("length")
    point = _decode(public_key)
    if _is_small_order(point):
        raise Rejected("key-small-order")
    return point


def _decode(encoded: bytes) -> Point:
    """The point that 32 bytes stand for (section 5.1.3): y, and the lowest bit of x on top."""
    number = int.from_bytes(encoded, "little")
    sign, y = number >> 255, number & (2**255 - 1)
    if y >= P:
        raise Rejected("key-encoding")
    u, v = (y * y - 1) % P, (D * y * y + 1) % P  # x^2 = u / v
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    if (v * x * x - u) % P:
        x = x * ROOT_OF_MINUS_ONE % P
        if (v * x * x - u) % P:
            raise Rejected("key-encoding")  # u / v is no square: no point of the curve has this y
    if x == 0 and sign:
        raise Rejected("key-encoding")
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


def _encode(point: Point) -> bytes:
    x, y, z, _ = point
    inverse = pow(z, P - 2, P)
    return (y * inverse % P | (x * inverse % P & 1) << 255).to_bytes(32, "little")


def _is_small_order(point: Point) -> bool:
    x, y, z, _ = _double(_double(_double(point)))
    return x == 0 and y == z


def _negative(point: Point) -> Point:
    x, y, z, t = point
    return P - x, y, z, P - t


def _add(one: Point, two: Point) -> Point:
    x1, y1, z1, t1 = one
    x2, y2, z2, t2 = two
    a = (y1 - x1) * (y2 - x2) % P
    b = (y1 + x1) * (y2 + x2) % P
    c = 2 * D * t1 * t2 % P
    d = 2 * z1 * z2 % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def _double(point: Point) -> Point:
    x, y, z, _ = point
    a, b = x * x % P, y * y % P
    h = a + b
    e = h - (x + y) * (x + y) % P
    g = a - b
    f = 2 * z * z + g
    return e * f % P, g * h % P, f * g % P, e * h % P


def _multiples(point: Point) -> List[Point]:
    """0, 1, ..., 15 times the point."""
    row = [NEUTRAL]
    for _ in range(15):
        row.append(_add(row[-1], point))
    return row


def _two_products(s: int, one: Point, h: int, two: Point) -> Point:
    """s one + h two, for scalars below 2**256."""
    ones, twos = _multiples(one), _multiples(two)
    total = NEUTRAL
    for shift in range(252, -1, -4):
        total = _double(_double(_double(_double(total))))
        total = _add(total, ones[s >> shift & 15])
        total = _add(total, twos[h >> shift & 15])
    return total
