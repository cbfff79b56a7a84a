"""A small table of visits and its plan."""

import csv
import random
from pathlib import Path

HERE = Path(__file__).parent
PLAN = (HERE / "visits_plan.toml").read_text()
STATISTICS = "\n" + (HERE / "visits_statistics.toml").read_text()


def write(path, *, people=120, seed=1):
    """One to three visits of each person, in two spellings of the name; returns the rows, as they are in the file."""
    rng = random.Random(seed)  # noqa: S311 - a made-up table
    rows = []
    for number in range(people):
        age, illness = rng.randint(18, 90), rng.choice(["flu", "cold", "rash"])
        for _ in range(rng.choice([1, 1, 2, 3])):
            spelled = rng.choice([f"Person {number:03d}", f" person  {number:03d}"])
            day = f"2025-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
            door, room = rng.choice(["north", "south", "east"]), rng.choice(["Lab 1", "lab 1", "Lab 2"])
            remark = "a remark of many words about this visit"
            rows.append([spelled, day, door, age, room, illness, rng.randint(1, 500), remark])
    names = ["visitor", "day", "door", "age", "room", "illness", "minutes", "remark"]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return [dict(zip(names, map(str, row), strict=True)) for row in rows]
