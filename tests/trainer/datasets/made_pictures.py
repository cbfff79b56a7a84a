"""A folder of pictures as a camera gives them, and a film of the same scene, made by a script."""

import csv

import numpy as np
import pytest

cv2 = pytest.importorskip("cv2")

PEOPLE, EACH = 24, 16


def scene(y, z, rng, *, height=480, width=640):
    """One picture uint8 (height, width, 3), blue first: a bar that lies (y 0) or stands (y 1) on blue or red (z)."""
    picture = rng.integers(0, 60, (height // 8, width // 8, 3), dtype=np.uint8)
    picture = cv2.resize(picture, (width, height), interpolation=cv2.INTER_NEAREST)
    picture[..., 2 if z else 0] += 90
    row, column = rng.integers(height // 3, 2 * height // 3), rng.integers(width // 3, 2 * width // 3)
    down, across = (height // 3, width // 20) if y else (height // 20, width // 3)
    picture[max(row - down, 0) : row + down, max(column - across, 0) : column + across] = 230
    return picture


def write_folder(folder, *, people=PEOPLE, each=EACH, height=480, width=640, seed=0):
    """FOLDER/lying and FOLDER/standing with a FOLDER/labels.csv: file, group (z) and person."""
    rng, rows = np.random.default_rng(seed), []
    for person in range(people):
        for number in range(each):
            y, z = number % 2, person % 2
            name = f"{('lying', 'standing')[y]}/{person:02}-{number:02}.png"
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(folder / name), scene(y, z, rng, height=height, width=width))
            rows.append((name, ("blue", "red")[z], f"p{person}"))
    with (folder / "labels.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("file", "group", "person"), *rows])
    return folder


def write_film(path, *, frames=12, height=480, width=640, seed=1):
    """A film of the same scene."""
    rng = np.random.default_rng(seed)
    film = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 10.0, (width, height))
    for number in range(frames):
        film.write(scene(number % 2, number % 3 == 0, rng, height=height, width=width))
    film.release()
    return path
