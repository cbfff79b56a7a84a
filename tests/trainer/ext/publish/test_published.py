"""What is attacked is what the files say, and a publication that tells too much does not come to be."""

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.trainer.attacks.families.logistic import Logistic
from edgeveil.trainer.ext.publish import attack, publication, published
from edgeveil.trainer.ext.publish.attack import attack_files
from edgeveil.trainer.ext.publish.master_key import MasterKey
from edgeveil.trainer.ext.publish.plan import Plan
from edgeveil.trainer.ext.publish.published import Output
from edgeveil.trainer.ext.publish.vault import Vault
from tests.support.publishing import visit_tables
from tests.support.publishing.linked_frames import made

KEY = MasterKey(bytes(range(64)))
ATTACK = '[attack]\nsensitive = "illness"\npoints = {points}\nbits = 0.4\n'
DROPPED = ('action = "sensitive"\ndistinct_l = 2', 'action = "drop"')
FRAME, CODE = Output("frame", (4, 4, 1), "float32"), Output("code", (), "int64")


def plan_of(folder, *changes, points=25):
    """The plan of visits with an attack on the illness, which is dropped, and texts replaced."""
    text = visit_tables.PLAN
    for old, new in (DROPPED, *changes):
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "plan.toml").write_text(f"{text}\n{ATTACK.format(points=points)}")
    return Plan.read(folder / "plan.toml")


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(attack, "adversaries", lambda: (Logistic(),))
    monkeypatch.setattr(attack, "load_tensorflow", lambda: None)


@pytest.fixture
def parts(tmp_path):
    """Two files of frames of 150 people, 4 each, their plan and the z of all rows."""
    frames, z = made(shift=1.5, people=150, each=4)
    order = np.random.default_rng(3).permutation(600)
    x = frames.outputs["x"]
    columns = {
        "visitor": [f"p{frames.whose[row]}" for row in order],
        **{name: ["*"] * 600 for name in ("day", "door", "room")},
        "age": [frames.columns["age"][row] for row in order],
        "minutes": [int(row) for row in order],
        "frame": pyarrow.array([x[row].tobytes() for row in order], pyarrow.binary(64)),
        "code": [int(row) % 3 for row in order],
    }
    table = pyarrow.table(columns)
    paths = []
    for number, rows in enumerate((slice(0, 250), slice(250, 600))):
        paths.append(tmp_path / f"part-{number}.parquet")
        pyarrow.parquet.write_table(table.slice(rows.start, rows.stop - rows.start), paths[-1])
    return paths, plan_of(tmp_path), [z[row] for row in order], x[order]


def test_rows_are_read_from_all_parts(parts):
    paths, plan, z, x = parts
    found = published.read(paths, plan, [], [FRAME, CODE])
    assert len(set(zip(found.whose, z, strict=True))) == len(set(found.whose)) == 150
    assert found.linked
    assert np.array_equal(found.outputs["frame"], x)
    assert found.place.tolist() == list(range(600))
    assert set(found.columns) == {"day", "door", "age", "room", "minutes"}  # and not the pseudonym
    assert (found.outputs["code"] == np.array([int(one) % 3 for one in found.columns["minutes"]])).all()


def test_where_there_are_too_many_all_rows_of_some_people_are_drawn(parts, monkeypatch):
    paths, plan, _, x = parts
    monkeypatch.setattr(published, "MOST_PEOPLE", 40)
    found = published.read(paths, plan, [], [FRAME])
    assert len(found.place) == 160
    assert np.bincount(found.person).tolist() == [4] * 40
    assert np.array_equal(found.outputs["frame"], x[found.place])
    monkeypatch.setattr(published, "MOST_VALUES", 16 * 4 * 10)
    assert len(published.read(paths, plan, [], [FRAME]).place) == 40


def test_the_files_are_attacked_with_the_z_of_their_rows(parts):
    paths, plan, z, x = parts
    copied = [("p0", one.tobytes()) for one in x[:3]]
    with pytest.raises(LimitNotMet, match="from the frames, attacks may reach"):
        attack_files(paths, plan, {"illness": z}, outputs=[FRAME, CODE], records=copied)
    found = attack_files(paths, plan_of(paths[0].parent, points=100), {"illness": z}, outputs=[CODE])
    assert list(found["views"]) == ["columns"]


def publish(folder, plan):
    with Vault(folder / "vault", KEY) as vault:
        return publication.publish(
            folder / "visits.csv", plan, KEY, folder / "out", recipient="university", vault=vault
        )


def test_a_publication_says_what_its_attack_found(tmp_path):
    visit_tables.write(tmp_path / "visits.csv", people=240)
    document = publish(tmp_path, plan_of(tmp_path))
    assert document["attack"]["unit"] == "person"
    assert document["attack"]["verdict"] in (tmp_path / "out/publication.md").read_text().lower()
    assert "illness" in (tmp_path / "out/card.html").read_text()
    assert document["unique_after"] == 0 < document["unique_before"]["all"]


def test_over_the_limit_nothing_is_published(tmp_path):
    rows = visit_tables.write(tmp_path / "visits.csv", people=240)
    names = list(rows[0])
    told = [{**row, "minutes": {"flu": "1", "cold": "2", "rash": "3"}[row["illness"]]} for row in rows]
    lines = [",".join(names), *(",".join(row[name] for name in names) for row in told)]
    (tmp_path / "visits.csv").write_text("\n".join(lines))
    with pytest.raises(LimitNotMet, match='Nothing was published: of "illness", from the columns alone') as said:
        publish(tmp_path, plan_of(tmp_path))
    assert said.value.exit_code == 3
    assert {path.name for path in tmp_path.iterdir()} == {"plan.toml", "visits.csv"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('sensitive = "illness"', 'sensitive = "age"', 'attack.sensitive takes a column with the action "drop"; "age"'),
        ('sensitive = "illness"', 'sensitive = "ilness"', 'is no column of it (did you mean "illness"?)'),
        ("points = 25", 'points = 25\ntarget = "day"', 'attack.target takes a column with the action "target"'),
        ("points = 25\n", "", "`points` is missing"),
        ("bits = 0.4", "bits = 0", "`bits`: expected greater than 0"),
        ("bits = 0.4", 'bits = 0.4\nbudget = "long"', "`budget`: expected 'quick' or 'thorough'"),
    ],
)
def test_an_attack_that_cannot_be_is_refused(tmp_path, old, new, said):
    text = plan_of(tmp_path).text
    assert old in text
    (tmp_path / "plan.toml").write_text(text.replace(old, new))
    with pytest.raises(BadInput) as refused:
        Plan.read(tmp_path / "plan.toml")
    assert said in str(refused.value)
