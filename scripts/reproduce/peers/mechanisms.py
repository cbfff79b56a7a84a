"""What people use today to hide a person in a picture; each takes pictures uint8 (n, height, width, 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from edgeveil.edge_runtime.opencv import opencv
from edgeveil.trainer.datasets.readings import Readings

BLURS = (1, 3, 6)  # standard deviation, pixels
BLOCKS = (4, 8, 16)  # side, pixels
NEIGHBOURS = 16  # m: by how many pixels neighbouring pictures may differ
CELL, EPSILONS = 8, (2.0, 0.5)
SAME = (2, 5)
DEFACE_MOSAIC = 20  # pixels

Mechanism = Callable[[Readings, np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Peer:
    """A mechanism, its name and strength, and where it comes from."""

    name: str
    strength: str
    source: str
    run: Mechanism


def peers(*, faces: bool) -> list[Peer]:
    """All mechanisms; those for faces alone too where the pictures are of ``faces``."""
    found = [Peer("Gaussian blur", f"sigma {s} px", "OpenCV GaussianBlur", _blur(s)) for s in BLURS]
    found += [Peer("mosaic", f"{b} px", "OpenCV resize: mean of a block", _mosaic(b)) for b in BLOCKS]
    found += [
        Peer("DP pixelisation", f"{CELL} px, m {NEIGHBOURS}, epsilon {e:g}", "Fan 2018", _private(e)) for e in EPSILONS
    ]
    found += [Peer("k-same", f"k {k}", "Newton, Sweeney and Malin 2005, on pixels", _k_same(k)) for k in SAME]
    if faces:
        found += [
            Peer("deface, blur", "default (ellipse)", "deface, on the crop as its box", _deface_blur(ellipse=True)),
            Peer("deface, blur", "--boxes", "deface, on the crop as its box", _deface_blur(ellipse=False)),
            Peer("deface, mosaic", f"{DEFACE_MOSAIC} px", "deface, on the crop as its box", _deface_mosaic),
        ]
    return found


def _each(one: Callable[[np.ndarray], np.ndarray]) -> Mechanism:
    """A mechanism from what it does to one grey picture (height, width), uint8."""

    def run(readings: Readings, _rng: np.random.Generator) -> np.ndarray:
        return np.stack([one(picture[..., 0]) for picture in readings.x])[..., None]

    return run


def _blur(sigma: float) -> Mechanism:
    return _each(lambda picture: opencv().GaussianBlur(picture, (0, 0), sigma))


def _mosaic(block: int) -> Mechanism:
    return _each(lambda picture: np.rint(cell_means(picture, block)).astype(np.uint8))


def cell_means(picture: np.ndarray, side: int) -> np.ndarray:
    """Every pixel of (height, width) as the mean of its cell of ``side`` x ``side`` pixels; float64."""
    made = np.empty(picture.shape)
    for top in range(0, picture.shape[0], side):
        for left in range(0, picture.shape[1], side):
            made[top : top + side, left : left + side] = picture[top : top + side, left : left + side].mean()
    return made


def _private(epsilon: float) -> Mechanism:
    """Cell means plus Laplace noise of scale 255 m / (b^2 epsilon), one draw a cell, cut to 0 to 255.

    L. Fan, "Image Pixelization with Differential Privacy", DBSec 2018, LNCS 10980: neighbours differ in m pixels.
    """
    scale = 255 * NEIGHBOURS / (CELL**2 * epsilon)

    def run(readings: Readings, rng: np.random.Generator) -> np.ndarray:
        x = readings.x[..., 0]
        rows, columns = (-(-side // CELL) for side in x.shape[1:])
        noise = rng.laplace(0.0, scale, (len(x), rows, columns)).repeat(CELL, axis=1).repeat(CELL, axis=2)
        means = np.stack([cell_means(picture, CELL) for picture in x])
        return np.rint(np.clip(means + noise[:, : x.shape[1], : x.shape[2]], 0, 255)).astype(np.uint8)[..., None]

    return run


def _k_same(k: int) -> Mechanism:
    """Each picture as the mean of a group of at least k, of k people; groups are made greedily, nearest first.

    E. Newton, L. Sweeney and B. Malin, "Preserving Privacy by De-identifying Face Images", IEEE TKDE 17(2), 2005. Its
    promise (right at most once in k) needs one picture of a person in the set: faces are grouped within one light, and
    frames of depth within one kind of action, each group of k different people.
    """

    def run(readings: Readings, rng: np.random.Generator) -> np.ndarray:
        lights = [readings.attributes[name] for name in ("azimuth", "elevation") if name in readings.attributes]
        within = np.unique(np.stack([readings.y, *lights], axis=1), axis=0, return_inverse=True)[1].reshape(-1)
        flat = readings.x.reshape(len(readings.x), -1).astype(np.float64)
        made = np.empty_like(flat)
        for value in np.unique(within):
            for group in groups_of(flat, readings.z, rng.permutation(np.flatnonzero(within == value)), k):
                made[group] = flat[group].mean(axis=0)
        return np.rint(made).astype(np.uint8).reshape(readings.x.shape)

    return run


def groups_of(flat: np.ndarray, z: np.ndarray, rows: np.ndarray, k: int) -> list[np.ndarray]:
    """Groups of ``rows`` with k different z each, near in ``flat`` (n, d); those left over join the nearest group."""
    left, groups = list(rows), []
    while len(set(z[left])) >= k:
        group = [left.pop(0)]
        order = np.argsort(((flat[left] - flat[group[0]]) ** 2).sum(axis=1), kind="stable")
        for place in order:
            if len(group) < k and z[left[place]] not in z[group]:
                group.append(left[place])
        taken = set(group)
        left = [row for row in left if row not in taken]
        groups.append(group)
    if not groups:
        return [np.array(left)]
    means = np.stack([flat[group].mean(axis=0) for group in groups])
    for row in left:
        groups[int(((means - flat[row]) ** 2).sum(axis=1).argmin())].append(row)
    return [np.array(group) for group in groups]


def _deface_blur(*, ellipse: bool) -> Mechanism:
    """The box filter of half the box's sides, within the ellipse in the box (its default) or all of the box."""

    def one(picture: np.ndarray) -> np.ndarray:
        height, width = picture.shape
        blurred = opencv().blur(picture, (width // 2, height // 2))
        if not ellipse:
            return blurred
        rows, columns = np.mgrid[:height, :width]
        ry, rx = height // 2, width // 2
        return np.where(((rows - ry) / ry) ** 2 + ((columns - rx) / rx) ** 2 < 1, blurred, picture)

    return _each(one)


def _deface_mosaic(readings: Readings, _rng: np.random.Generator) -> np.ndarray:
    """Blocks in the colour of their first pixel."""
    corners = readings.x[:, ::DEFACE_MOSAIC, ::DEFACE_MOSAIC]
    made = corners.repeat(DEFACE_MOSAIC, axis=1).repeat(DEFACE_MOSAIC, axis=2)
    return np.ascontiguousarray(made[:, : readings.x.shape[1], : readings.x.shape[2]])
