"""The page on Table 2: made of the records alone, of however many there are, and the committed one is of these."""

import json

import pytest

from scripts.reproduce.pages.papers import table_2_cells, table_2_page, table_2_rows
from scripts.reproduce.papers import table_2
from tests.support.audit_documents import document
from tests.support.checkout import ROOT


def record(data: str, row: str, seed: int, *, best: float = 0.95, fixed: float = 0.55, met: bool = True) -> dict:
    trained = row in table_2_rows.TRAINED
    audit = document(best, bits=0.1, fixed=fixed)
    if not trained:
        del audit["collateral"], audit["label_only"]  # rows that never ship were only attacked
    spent = {"perturber": 60.0 + seed}
    if row == "prgan":
        spent |= {"classifier_target": 10.0, "classifier_sensitive": 20.0}
    return {
        "data": data,
        "row": row,
        "seed": seed,
        "training": (
            {"limit_met": met, "wall_time_s": spent, "validation": {"target_accuracy": 0.9}} if trained else {}
        ),
        "audit": audit,
        "versions": {"python": "3.11"},
        "machine": {"cores": 2, "architecture": "x86_64"},
    }


def line(page: str, start: str, *, after: str = "") -> list[str]:
    """The cells of the first row of a table that starts so, after the heading ``after``."""
    rows = page[page.index(after) :].splitlines()
    return [cell.strip() for cell in next(row for row in rows if row.startswith(f"| {start}")).split("|")[1:-1]]


def test_the_committed_page_is_what_the_committed_records_say():
    made_of = table_2_page.codebooks(ROOT), table_2_page.floors(ROOT)
    page = table_2_page.page(table_2_rows.read(ROOT / table_2_page.RECORDS), *made_of)
    assert (ROOT / table_2_page.PAGE).read_text() == page, "run python -m scripts.reproduce.pages.write_pages"


def test_pr_gan_and_ngp_kept_y_on_every_seed_of_every_data_set():
    """A generator that has gone black hides z as well as any: the mean of a row would not tell.

    On depth one seed of both missed the floor of 0.93 by three points, as the page says: with a quarter of the
    recordings, D_y is right on 0.867 of its raw validation rows.
    """
    records = [one for one in table_2_rows.read(ROOT / table_2_page.RECORDS) if one["row"] in ("prgan", "ngp")]
    assert len(records) >= 16
    missed = [(one["data"], one["row"], one["seed"]) for one in records if not one["training"]["limit_met"]]
    assert missed == [("depth", "ngp", 0), ("depth", "prgan", 0)]


def test_without_records_the_page_says_so():
    assert table_2_page.page([], {}).count("\nNot recorded.\n") == len(table_2_rows.PAPER)


def test_seeds_are_averaged_and_the_interval_is_that_of_the_widest_ends():
    records = [record("mnist", "prgan", 0, fixed=0.60), record("mnist", "prgan", 1, fixed=0.64)]
    page = table_2_page.page(records, {})
    cells = line(page, "PR-GAN", after="## MNIST")
    assert cells[2:4] == ["62.0 [58.0, 66.0]", "65.3"]  # ours, and the paper's beside it
    assert cells[5] == "**95.0 [93.0, 97.0]**"  # as chosen on validation, not the best on test
    assert cells[-1] == "60"
    assert line(page, "AP", after="## MNIST")[1] == "not recorded"
    # label-only stands beside an audit, so it is known where its own row is not.
    assert line(page, "label-only", after="## MNIST")[5] == "**60.0 [58.0, 62.0]**"
    assert "D_y and D_z together took 30 s more" in page


def test_the_fixed_target_is_held_seed_by_seed_or_not():
    records = [record("wifi", "prgan", 0, fixed=0.2), record("wifi", "prgan", 1, fixed=0.24)]
    assert [one.met for one in table_2_rows.targets(records, "wifi")] == [True, False]
    assert "Seed 0 holds (20.0 at 96.0); seed 1 does not hold (24.0 at 96.0)." in table_2_page.page(records, {})


def test_table_5_stands_beside_raw_readings_and_label_only():
    page = table_2_page.page([record("mnist", "ngp", 0, met=False)], {})
    where = "### Retained utility (MNIST"
    assert line(page, "NGP", after=where)[1:] == ["91.0 [89.0, 93.0]", "0.77 [0.74, 0.80]"]
    assert line(page, "label-only, as mean", after=where)[1] == "60.0 [58.0, 62.0]"
    assert line(page, "raw samples", after=where)[1] == "98.0 [96.0, 100.0]"
    liked = line(page, "NGP", after="How similar x' is to x")
    assert liked[1:3] == ["0.82 [0.80, 0.84]", "5.50 [5.40, 5.60]"]
    assert liked[-1] == "93.0 [91.0, 95.0]"
    assert "no checkpoint kept y on validation as its recipe asks: seed 0 kept 90.0 (the paper asks for 95)." in page


def test_vectors_of_which_nothing_kept_is_known_are_in_table_5_all_the_same():
    made = record("wifi", "prgan", 0)
    made["audit"]["collateral"] |= {"kept": {}, "alike": None}
    page = table_2_page.page([made], {})
    assert line(page, "PR-GAN", after="### Retained utility (WiFi")[1] == "91.0 [89.0, 93.0]"
    assert line(page, "PR-GAN", after="How similar x' is to x")[1:] == [
        "-",
        "-",
        "5.50 [5.40, 5.60]",
        "93.0 [91.0, 95.0]",
    ]


def test_an_interval_that_is_not_known_is_not_made_up():
    found = table_2_rows.spread(
        [{"mean": 2.0, "low": None, "high": None}, {"mean": 4.0, "low": None, "high": None}], "mean"
    )
    assert found == table_2_rows.Spread(3.0, 2.0, 4.0, (2.0, 4.0))
    assert table_2_cells.number(None) == "not recorded"


@pytest.mark.parametrize("row", ["prgan", "original"])
def test_the_record_of_a_codebook_stands_in_the_table(row):
    int8 = {"label_accuracy": 0.97}
    codebook = {
        "seeds": [{"artefacts": {"tflite-int8": int8}, "training_s": {"perturber": 30.0}}],
        "over_seeds": {
            "attack": {"mean": 0.61, "worst": 0.62},
            "auc": {"mean": 0.54},
            "bits_over_null": {"mean": 0.007},
        },
    }
    cells = line(table_2_page.page([record("mnist", row, 0)], {"mnist": codebook}), "**codebook**")
    assert cells[1] == "97.0"
    assert (cells[2], cells[5]) == ("-", "**61.0**, worst seed 62.0")
    codebook["seeds"][0]["networks"] = document(best=0.6, fixed=0.5)
    cells = line(table_2_page.page([record("mnist", row, 0)], {"mnist": codebook}), "**codebook**")
    assert cells[2] == "50.0 [48.0, 52.0]"
    assert cells[5].endswith("; networks (quick) 60.0 [58.0, 62.0]")


@pytest.mark.parametrize(("there", "asked", "done"), [("quick", "thorough", False), ("thorough", "quick", True)])
def test_an_audit_that_tried_harder_stands(tmp_path, there, asked, done):
    record = tmp_path / "mnist-prgan-0.json"
    assert not table_2.recorded(record, asked)
    record.write_text(json.dumps({"audit": {"budget": there}}))
    assert table_2.recorded(record, asked) is done
    assert table_2.recorded(record, there)


def test_rows_of_few_seeds_and_what_export_refused_are_named():
    records = [record("wifi", "ap", seed) for seed in (0, 1)] + [record("wifi", "ngp", seed) for seed in (0, 1, 2)]
    records[1]["audit"]["not_exported"] = "it leaves samples as they are"
    page = table_2_page.page(records, {})
    assert "* Of fewer than 3 seeds: AP (2)." in page
    assert (
        "AP: no target classifier: `edgeveil export` refused it, because it leaves samples as they are, for seed 1;"
        in page
    )
    assert "NGP: no discriminator: `edgeveil export`" not in page


def test_a_row_that_keeps_less_of_y_than_the_paper_is_named():
    made = record("mnist", "ap", 0)
    made["audit"]["target"] |= {"accuracy": 0.94}
    assert "less than the paper's 95: AP (94.0)." in table_2_page.page([made, record("mnist", "ngp", 0)], {})
    assert "less than the paper's" not in table_2_page.page([record("mnist", "ap", 0)], {})


def test_what_only_some_audits_read_off_pictures_is_no_column():
    old, new = record("faces", "prgan", 0), record("faces", "ngp", 0)
    new["audit"]["collateral"] |= {"kept": {}}
    page = table_2_page.page([old, new], {})
    assert line(page, "what is sent", after="How similar x' is to x")[1] == "SSIM"
    assert line(table_2_page.page([old], {}), "what is sent", after="How similar x' is to x")[1] != "SSIM"


@pytest.mark.parametrize(
    ("fixed", "transfer", "said"),
    [
        (0.87, 0.89, "right 87.0, the transfer network 89.0: both read z at least as well as the paper's D_z (80.7)."),
        (0.80, 0.89, "right 80.0, the transfer network 89.0; the paper's D_z 80.7."),
        (0.87, 0.42, "right 87.0, the transfer network 42.0: it is weak here, and its column says little."),
    ],
)
def test_how_well_those_who_never_saw_x_read_raw_samples_is_said(fixed, transfer, said):
    made = record("faces", "original", 0)
    for row in made["audit"]["adversaries"]:
        row["accuracy"] = {"fixed": fixed, "transfer": transfer}.get(row["kind"], row["accuracy"])
    assert f"* On raw samples the fixed D_z is {said}" in table_2_page.page([made], {})
