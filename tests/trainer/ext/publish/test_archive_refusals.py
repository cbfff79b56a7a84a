"""What is refused before anything is written: no folder, and a vault as it was."""

import os
import re
import stat

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput, BundleRefused, EdgeVeilError
from edgeveil.edge_runtime.util import atomic
from edgeveil.edge_runtime.util.atomic import WriteFailed
from edgeveil.trainer.ext.publish import frames
from edgeveil.trainer.ext.publish.master_key import MasterKey, keygen, open_key
from edgeveil.trainer.ext.publish.vault import Vault
from tests.support import bundles
from tests.support.publishing import archives
from tests.support.publishing.breaking import bad_frames, rewrite, rows_in

DROP = '[columns.recording]\naction = "drop"'
SECRETS = re.compile(r"person +[0-9]|lab [12]|remark of", re.IGNORECASE)


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    monkeypatch.setattr(frames, "engine_of", archives.here)


@pytest.fixture
def own(tmp_path):
    return archives.make(tmp_path)


def refused(own, said, kind=BadInput, **changes):
    """Nothing is left of it, and the message holds nothing of the table."""
    with pytest.raises(kind, match=said) as error:
        own.published(**changes)
    assert not SECRETS.search(str(error.value))
    assert not own["out"].exists()
    if own["vault"].exists():
        assert rows_in(own, "subject") == rows_in(own, "field") == 0
    return error.value


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("k = 3", "k = 1", "`k`: expected greater than or equal to 2"),
        ("k = 3", "k = 121", "the table has 120 people"),
        ("distinct_l = 2", "distinct_l = 4", "fewer different values than the l"),
        ("low = 18", "low = 30", "its hierarchy of ranges does not cover"),
        ("widths = [10, 20]", "widths = [10, 25]", "each width a multiple of the one before"),
        ("k = 3\n", "k = 100\n", r"No generalisation meets the criteria: with every column at \*, "),
        ("k = 3\n", "k = 101\n", "at least k = 101 must stay"),
        ("k = 3\n", "k = 3\nk = 4\n", "is no TOML: .*overwrite a value"),
        ('key = "recording"', 'key = "record"', '`frames.key` names the column .* "record" is none'),
        (DROP, DROP.replace("drop", "target"), '"recording" is none'),
        ("most_dropped = 0.1\n", "", "`most_dropped` is missing"),
        ("most_dropped = 0.1", "most_dropped = 1.0", "`most_dropped`: expected less than 1"),
        ('\n[frames]\nkey = "recording"\nmost_dropped = 0.1\n', "", r"The plan has no table \[frames\]"),
        ('action = "drop"', 'action = "keep"\nreason = "a remark"', 'Column "remark", row 1: free text'),
        ("[columns.minutes]", "[columns.minuts]", 'a column "minutes" that the plan does not know'),
    ],
)
def test_a_plan_that_does_not_hold(own, old, new, said):
    assert old in own.plan
    own.plan = own.plan.replace(old, new, 1)
    refused(own, said)


def test_a_row_without_its_frame_and_the_reverse(own):
    rewrite(own, lambda rows: [{**rows[0], "recording": "9999"}, *rows[1:]])
    refused(own, r'Column "recording", row 1: expected a number from 0 to [0-9]+')
    rewrite(own, lambda rows: rows[1:])
    refused(own, "1 frame has no row in the table, the first of them number")


def test_two_columns_of_one_name(own):
    own["visits.csv"].write_text(own["visits.csv"].read_text().replace("minutes", "age", 1))
    refused(own, 'the column "age" is there twice')


def test_two_rows_of_one_frame(own):
    rewrite(own, lambda rows: [rows[0], {**rows[1], "recording": rows[0]["recording"]}, *rows[2:]])
    refused(own, 'Column "recording", row 2: it has the frame of row 1')


def test_recordings_that_are_none_or_of_another_bundle(own):
    refused(own, "a folder of pictures, npz:FILE or FILE.parquet", recordings="x.npz")
    refused(own, "no Parquet file can be read there", recordings="missing.parquet")
    refused(own, "there is no such file", recordings="npz:missing.npz")
    np.savez(own["x.npz"], x=np.zeros((len(own.rows), 5), np.uint8))
    refused(own, r"expected x of uint8 \(N, 64\)")


def test_frames_of_another_size_are_of_another_bundle(own, monkeypatch):
    bad_frames(monkeypatch)
    refused(own, r"first frames cannot be perturbed \(shape\): this bundle takes uint8 \(64,\)")


def test_an_unaudited_bundle_is_taken_where_that_is_to_be_said(own):
    refused(own, "was not audited", unaudited=False)


def test_a_bundle_that_follows_people_from_frame_to_frame(tmp_path):
    refused(
        archives.make(tmp_path, bundle=bundles.held_example()),
        "each frame by itself. Take a bundle whose recipe says hold =",
    )


def test_a_bundle_that_cuts_people_out_of_pictures(tmp_path):
    refused(archives.make(tmp_path, bundle=bundles.captured_example()), "one frame. Save the cuts as recordings")


def test_a_bundle_of_a_stranger(own):
    bundles.make_bundle(own.folder / "strange", example=archives.example(), key=bundles.STRANGER)
    error = refused(own, "not in the trust folder", BundleRefused, bundle=own["strange/test.veil"])
    assert error.reason == "untrusted-key"


def test_a_column_of_the_name_that_the_bundle_adds(own):
    own.plan = own.plan.replace("[columns.minutes]", "[columns.label]")
    own["visits.csv"].write_text(own["visits.csv"].read_text().replace("minutes", "label", 1))
    refused(own, 'The column "label" has the name of a column that the bundle adds')


def test_no_recipient_no_jobs_no_vault(own):
    refused(own, "the name is empty", recipient=" ")
    refused(own, "1 or more", jobs=0)
    own.plan = own.plan.replace('mode = "vault"', 'mode = "stateless"')
    with pytest.raises(BadInput, match='set mode = "vault"'):
        own.published()


def test_a_key_of_the_wrong_length_or_mode_and_the_vault_of_another(own):
    own.published("first")
    keygen(own["other.key"])
    with pytest.raises(BadInput, match="is of another key"):
        Vault(own["vault"], open_key(own["other.key"]))
    own["pseudonyms.key"].chmod(0o644)
    refused_key = pytest.raises(BadInput, match="can be read by others")
    with refused_key:
        own.published()
    own["pseudonyms.key"].chmod(0o600)
    own["pseudonyms.key"].write_bytes(b"short")
    with pytest.raises(BadInput, match="5 bytes and 64 were expected"):
        own.published()
    with pytest.raises(BadInput, match="64 bytes was expected"):
        MasterKey(b"short")


def test_a_locked_vault(own):
    with Vault(own["vault"], open_key(own["pseudonyms.key"])), pytest.raises(BadInput, match="in use by another"):
        own.published()
    assert not own["out"].exists()


def test_a_folder_of_something_else_is_left_as_it_is(own):
    own["out"].mkdir()
    own["out/notes.txt"].write_text("mine")
    with pytest.raises(BadInput, match="is not empty"):
        own.published()
    assert [path.name for path in own["out"].iterdir()] == ["notes.txt"]


def full_disk(monkeypatch, *, after):
    """Every write of a file fails once so many were made."""
    right, count = os.fsync, iter(range(10_000))

    def fsync(handle):
        if not stat.S_ISDIR(os.fstat(handle).st_mode) and next(count) >= after:
            raise OSError(28, "No space left on device")
        return right(handle)

    monkeypatch.setattr(atomic.os, "fsync", fsync)


def test_a_disk_that_is_full_at_once_leaves_nothing(own, monkeypatch):
    full_disk(monkeypatch, after=2)  # the state and the statistics, and not the pseudonyms
    refused(own, "no space left", WriteFailed)


def test_a_disk_that_fills_up_is_gone_on_with(own, monkeypatch):
    with monkeypatch.context() as disk:
        full_disk(disk, after=5)
        with pytest.raises(EdgeVeilError, match="no space left") as error:
            own.published()
    assert error.value.exit_code == 2
    assert not own["out/publication.json"].exists()
    own.published()
    own.published("straight")
    assert own.parts() == own.parts("straight")
