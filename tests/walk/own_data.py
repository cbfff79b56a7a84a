"""What a reader of the pages has in the working folder, small."""

import csv
import json
import tarfile
from pathlib import Path

import h5py
import numpy as np

from tests.support.publishing import archives, visit_tables
from tests.trainer.datasets.made_pictures import cv2, write_folder
from tests.trainer.datasets.test_formats import npy, put
from tests.trainer.datasets.test_ros import DEPTH, mcap_of_json

PEOPLE, EACH = 48, 8


def write() -> None:
    """Own data as npz, table and pictures; pictures of digits' size; a fleet; a policy; visits and their plan."""
    rng = np.random.default_rng(0)
    _own(rng)
    write_folder(Path("pictures"), people=24, each=4)
    Path("in").mkdir()
    for number in range(8):
        cv2.imwrite(f"in/{number}.png", rng.integers(0, 255, (8, 8), dtype=np.uint8))
    common = '[all]\nprofile = "raspberry-pi-cpu"\ntrust = "root"\nservice = false\n'
    Path("boards.toml").write_text(
        f'{common}[board.hall-1]\naddress = "ssh://pi@127.0.0.1:1"\n'
    )  # nobody answers there
    hide = [{"sensitive": "less-than-five", "most_attack_over_chance": 0.5, "audited": True}]
    visits = archives.write_table(Path("visits.csv"))
    np.savez("recordings.npz", x=rng.integers(0, 17, (len(visits), 8, 8, 1), np.uint8))
    Path("visits-plan.toml").write_text(visit_tables.PLAN + archives.FRAMES + visit_tables.STATISTICS)
    Path("policy.json").write_text(json.dumps({"schema": 1, "hide": hide}))


def _own(rng: np.random.Generator) -> None:
    """mine.npz and mine.csv: people of two groups (z) doing one of two things (y), eight readings of each."""
    subject = np.repeat(np.arange(PEOPLE), EACH)
    y, z = np.arange(PEOPLE * EACH) % 2, subject % 2
    x = rng.normal(size=(len(y), 6)).astype(np.float32)
    x[:, 0] += 4 * y
    x[:, 1] += 4 * z
    side = np.arange(len(y)) // 2 % 2
    x[:, 2] += 4 * side
    label = np.array(["left", "right"])[side]
    np.savez("mine.npz", x=x, y=np.array(["sit", "walk"])[y], z=z, subject=subject, label_side=label)
    np.savez("rows.npz", x=x[:64])
    np.savetxt("rows.csv", x[:8], delimiter=",")
    with Path("mine.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"x{column}" for column in range(6)), "activity", "group", "person"])
        writer.writerows([*row, y[at], z[at], subject[at]] for at, row in enumerate(x.tolist()))
    with h5py.File("mine.h5", "w") as file:
        file["x"], file["y"], file["z"], file["subject"] = x, y, z, subject
    Path("shards").mkdir()
    with tarfile.open("shards/0.tar", "w") as archive:
        for at, row in enumerate(x):
            about = json.dumps({"group": int(z[at]), "person": int(subject[at])})
            for ending, data in (("npy", npy(row)), ("cls", str(y[at]).encode()), ("json", about.encode())):
                put(archive, f"{at}.{ending}", data)
    mcap_of_json(Path(), "walk.mcap", {DEPTH: "/camera", "/y": "/activity", "/z": "/person"})
