"""Ways to make x' out of the same codes: a row for each, over seeds, and what was refused says why."""

from scripts.reproduce.pages import synthesis


def rate(value: float) -> dict:
    return {"accuracy": value, "low": value - 0.1, "high": value + 0.1}


CORRELATION = {"correlation": 0.6, "low": 0.5, "high": 0.7}


def read(y: float) -> dict:
    attributes = {"ink": CORRELATION, "user": rate(0.4), "building": rate(0.9)}
    return {"train_on_it": {"y": rate(y), "attributes": attributes}, "told_apart": rate(0.8)}


def measured(way: str, seed: int, y: float) -> dict:
    about = {"ink": (0, True), "user": (9, False), "building": (3, False)}
    useful = {
        "attributes": {name: {"classes": n, "named_by_recipe": named} for name, (n, named) in about.items()},
        "chance": {"user": 0.3, "building": 1.0},
        "perturbed": read(y),
        "kept": {"ink": CORRELATION, "building": CORRELATION} if way == "donor" else {},
    }
    slices = {"classifiers": 9, "perturber": 9, "test": 9, "attack": 9} if way == "donor" else {}
    return {
        "data": "wifi",
        "seed": seed,
        "synthesis": way,
        "attack": rate(0.2),
        "slices": slices,
        "collateral": useful,
    }


def test_a_row_for_each_way_and_a_sentence_for_what_was_refused():
    refused = {"data": "wifi", "seed": 1, "synthesis": "centroid", "refused": "Too few people."}
    beside = {"raw": read(0.9), "label_only_mean": read(0.5), "label_only_donor": read(0.95)}
    del beside["raw"]["told_apart"]
    rows = [measured("donor", 0, 0.8), measured("donor", 1, 0.6), measured("decoder", 0, 0.7), refused]
    rows.append({"data": "wifi", "seed": 0, "synthesis": "beside", "collateral": beside})
    shown = list(synthesis.lines({"rows": rows}, "wifi"))
    # What y settles is no merit of anybody's; what the recipe asks for has a star.
    assert shown[0].endswith(
        "| trained on x': y | ink* (correlation) | user (chance 30.0) | kept: ink | told from real, % |"
    )
    cells = [line.strip("| ").split(" | ") for line in shown[2:7]]
    assert cells[0][:4] == ["donor: typical samples", "0, 1", "20.0 [10.0, 30.0]", "70.0 [50.0, 90.0]"]
    assert cells[0][6] == "0.60 [0.50, 0.70]"
    assert cells[1][0] == "decoder: no real record (three slices)"
    assert cells[1][6] == "-"
    assert cells[2] == [
        "raw samples (three slices)",
        "0",
        "-",
        "90.0 [80.0, 100.0]",
        "0.60 [0.50, 0.70]",
        "40.0 [30.0, 50.0]",
        "-",
        "-",
    ]
    assert cells[4][0] == "label-only, as random donor (three slices)"
    assert cells[4][-1] == "80.0 [70.0, 90.0]"
    assert shown[7] == "\nCentroid, seed 1: Too few people."
    assert list(synthesis.lines({"rows": rows}, "faces")) == []
