"""Ways to make x' out of the same codes: a row for each, over seeds, and what was refused says why."""

from trainer.report import synthesis


def measured(way: str, seed: int, y: float) -> dict:
    def rate(value: float) -> dict:
        return {"accuracy": value, "low": value - 0.1, "high": value + 0.1}

    correlation = {"correlation": 0.6, "low": 0.5, "high": 0.7}
    read = {"y": rate(y), "attributes": {"ink": correlation, "building": rate(0.9)}}
    useful = {
        "attributes": {"ink": {"classes": 0}, "building": {"classes": 3}},
        "perturbed": {"train_on_it": read, "told_apart": rate(0.8)},
        "kept": {"ink": correlation} if way == "donor" else {},
    }
    return {"data": "wifi", "seed": seed, "synthesis": way, "attack": rate(0.2), "collateral": useful}


def test_a_row_for_each_way_and_a_sentence_for_what_was_refused():
    refused = {"data": "wifi", "seed": 1, "synthesis": "centroid", "refused": "Too few people."}
    rows = [measured("donor", 0, 0.8), measured("donor", 1, 0.6), measured("decoder", 0, 0.7), refused]
    shown = list(synthesis.lines({"rows": rows}, "wifi"))
    assert shown[0].endswith("| trained on x': y | ink (correlation) | building | kept: ink | told from real, % |")
    cells = [line.strip("| ").split(" | ") for line in shown[2:4]]
    assert cells[0][:4] == ["donor", "0, 1", "20.0 [10.0, 30.0]", "70.0 [50.0, 90.0]"]
    assert cells[0][6] == "0.60 [0.50, 0.70]"
    assert cells[1][0].startswith("decoder")
    assert cells[1][6] == "-"
    assert shown[4] == "\nCentroid, seed 1: Too few people."
    assert list(synthesis.lines({"rows": rows}, "faces")) == []
