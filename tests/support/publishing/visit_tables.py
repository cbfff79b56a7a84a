"""A small table of visits and its plan."""

import csv
import random

PLAN = """
[anonymity]
k = 3
people = "visitor"
link = "person"
suppress = 20

[columns.visitor]
action = "pseudonym"
mode = "vault"
normalise = ["nfkc", "case", "spaces"]
epoch = 1

[columns.day]
action = "quasi"
hierarchy = { kind = "dates", first = 2025-01-01, last = 2025-12-31, units = ["month", "quarter"] }

[columns.door]
action = "quasi"
hierarchy = { kind = "tree", tree = { front = ["north", "south"], back = ["east"] } }

[columns.age]
action = "quasi"
hierarchy = { kind = "ranges", low = 18, high = 90, widths = [10, 20] }

[columns.room]
action = "pseudonym"
mode = "stateless"
normalise = ["case"]
epoch = 1

[columns.illness]
action = "sensitive"
distinct_l = 2

[columns.minutes]
action = "target"

[columns.remark]
action = "drop"
"""

STATISTICS = """
[statistics.people]
kind = "count"
epsilon = 1.0

[statistics.ages]
kind = "histogram"
column = "age"
edges = [18, 40, 65, 91]
epsilon = 0.5

[statistics.minutes]
kind = "mean"
column = "minutes"
low = 0
high = 500
rows_each = 3
epsilon = 0.5
"""


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
