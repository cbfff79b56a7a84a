"""A published table: k people counted in what was written, no name in it, and nothing where anything fails."""

import csv
import json
from collections import Counter, defaultdict

import pyarrow.parquet
import pytest

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.edge_runtime.util.atomic import WriteFailed
from edgeveil.trainer.ext.publish import publication, table_files
from edgeveil.trainer.ext.publish.master_key import Cipher, MasterKey, Scope, unpadded
from edgeveil.trainer.ext.publish.plan import Plan
from edgeveil.trainer.ext.publish.vault import Vault
from tests.support.publishing import visit_tables

KEY = MasterKey(bytes(range(64)))
PSEUDONYM = 'action = "pseudonym"\nmode = "vault"\n'


@pytest.fixture
def folder(tmp_path):
    visit_tables.write(tmp_path / "visits.csv")
    return tmp_path


def plan_of(folder, *changes):
    """The plan with texts replaced."""
    text = visit_tables.PLAN
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "plan.toml").write_text(text)
    return Plan.read(folder / "plan.toml")


def published(folder, plan, *, recipient="university", out="out", table="visits.csv"):
    with Vault(folder / "vault", KEY) as vault:
        needs = vault if 'mode = "vault"' in plan.text else None
        return publication.publish(folder / table, plan, KEY, folder / out, recipient=recipient, vault=needs)


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def alike(rows):
    """How many pseudonyms have the same rows, for each of them."""
    held = defaultdict(list)
    for row in rows:
        held[row["visitor"]].append((row["day"], row["door"], row["age"]))
    return Counter(tuple(sorted(one)) for one in held.values())


def test_k_people_look_alike_and_nobody_is_named(folder):
    document = published(folder, plan_of(folder))
    rows = rows_of(folder / "out/table.csv")
    assert list(rows[0]) == ["visitor", "day", "door", "age", "room", "illness", "minutes"]
    assert min(alike(rows).values()) >= 3
    assert document["found"]["k"] == min(alike(rows).values())
    assert document["found"]["illness.distinct_l"] >= 2
    assert len({row["visitor"] for row in rows}) >= 100  # two spellings are one person
    everything = b"".join(path.read_bytes() for path in (folder / "out").iterdir()).lower()
    for secret in (b"person 0", b"lab 1", b"remark of", str(folder).encode()):
        assert secret not in everything
    assert json.loads((folder / "out/publication.json").read_text()) == document
    assert "not across" not in (folder / "out/publication.md").read_text()
    assert "across two publications" in (folder / "out/publication.md").read_text()


def test_every_written_row_is_one_that_was_taken(folder):
    published(folder, plan_of(folder))
    raw = rows_of(folder / "visits.csv")
    room, names = Cipher(KEY, Scope("university", "room", 1)), Cipher(KEY, Scope("university", "visitor", 1))
    with Vault(folder / "vault", KEY) as vault:
        found = Counter(
            (vault.identifier("visitor", names.open(row["visitor"])), unpadded(room.open(row["room"])), row["minutes"])
            for row in rows_of(folder / "out/table.csv")
        )
    taken = Counter((" ".join(row["visitor"].split()).lower(), row["room"].lower(), row["minutes"]) for row in raw)
    assert found <= taken
    assert taken.total() - found.total() <= 60  # of at most twenty people


def test_rows_come_in_an_order_of_their_own_and_the_same_again(folder):
    plan = plan_of(folder)
    published(folder, plan)
    published(folder, plan, out="again")
    assert (folder / "out/table.csv").read_bytes() == (folder / "again/table.csv").read_bytes()
    order = [row["minutes"] for row in rows_of(folder / "out/table.csv")]
    raw = [row["minutes"] for row in rows_of(folder / "visits.csv")]
    matches = sum(one == other for one, other in zip(order, raw, strict=False))
    assert matches < len(order) / 4
    published(folder, plan_of(folder, ("suppress = 20", "suppress = 21")), out="other")
    assert order != [row["minutes"] for row in rows_of(folder / "other/table.csv")]


def test_two_recipients_and_two_epochs_have_no_pseudonym_in_common(folder):
    plan = plan_of(folder)
    published(folder, plan)
    published(folder, plan, recipient="ministry", out="second")
    published(folder, plan_of(folder, ("epoch = 1", "epoch = 2")), out="third")
    seen = [{row["visitor"] for row in rows_of(folder / one / "table.csv")} for one in ("out", "second", "third")]
    assert not seen[0] & seen[1]
    assert not seen[0] & seen[2]
    assert len(seen[0]) == len(seen[1])


@pytest.mark.parametrize("method", ["incognito", "mondrian"])
def test_rows_that_nothing_links_have_k_different_people(folder, method):
    budget = "suppress = 0" if method == "mondrian" else "suppress = 20"
    changes = [
        ('link = "person"', 'link = "none"'),
        (PSEUDONYM, 'action = "drop"\n'),
        ("epoch = 1\n", ""),
        ("suppress = 20", budget),
    ]
    plan = plan_of(folder, *changes, ("k = 3", f'k = 3\nmethod = "{method}"'))
    document = published(folder, plan)
    assert document["generalised"]["method"] == method
    rows = rows_of(folder / "out/table.csv")
    assert "visitor" not in rows[0]
    # The rows are known again by minutes and illness, which are often enough different to tell whose they are.
    owners = defaultdict(set)
    for row in rows_of(folder / "visits.csv"):
        owners[row["minutes"], row["illness"]].add(" ".join(row["visitor"].split()).lower())
    classes = defaultdict(set)
    for row in rows:
        classes[row["day"], row["door"], row["age"]] |= owners[row["minutes"], row["illness"]]
    assert min(map(len, classes.values())) >= 3


def test_mondrian_loses_less(folder):
    one_row = [row for at, row in enumerate(rows_of(folder / "visits.csv")) if at % 2]
    table = {name: [row[name] for row in one_row] for name in one_row[0]}
    table["visitor"] = [f"person {number}" for number in range(len(one_row))]
    table_files.write(folder / "visits.csv", table)
    losses = {}
    for method in ("incognito", "mondrian"):
        plan = plan_of(folder, ("suppress = 20", "suppress = 0"), ("k = 3", f'k = 3\nmethod = "{method}"'))
        losses[method] = published(folder, plan, out=method)["loss"]["mean"]
        assert min(alike(rows_of(folder / method / "table.csv")).values()) >= 3
    assert losses["mondrian"] < losses["incognito"] / 2


def test_parquet_in_and_out(folder):
    cells = table_files.read(folder / "visits.csv")
    table_files.write(folder / "visits.parquet", cells)
    published(folder, plan_of(folder), table="visits.parquet")
    table = pyarrow.parquet.read_table(folder / "out/table.parquet")
    assert str(table.schema.field("minutes").type) == "int64"
    assert str(table.schema.field("visitor").type) == "string"
    assert not table.schema.metadata
    published(folder, plan_of(folder), out="as-csv")
    assert len(rows_of(folder / "as-csv/table.csv")) == table.num_rows


def test_codes_keep_their_zeros(tmp_path):
    cells = {"zip": ["00712", "12345"], "count": ["7", ""], "long": ["9" * 30, "1"]}
    for suffix in ("csv", "parquet"):
        table_files.write(tmp_path / f"t.{suffix}", cells)
        assert table_files.read(tmp_path / f"t.{suffix}") == cells


def test_entropy_and_closeness_are_measured_in_the_file(folder):
    tree = '{ kind = "tree", tree = { lung = ["flu", "cold"], skin = ["rash"] } }'
    asked = f'entropy_l = 1.5\nt = 0.4\ndistance = "hierarchical"\nhierarchy = {tree}'
    document = published(folder, plan_of(folder, ("suppress = 20", "suppress = 0"), ("distinct_l = 2", asked)))
    assert document["found"]["illness.entropy_l"] >= 1.5
    assert document["found"]["illness.t"] <= 0.4
    assert document["asked"] == {"k": 3, "suppress": 0, "illness.entropy_l": 1.5, "illness.t": 0.4}


def test_the_reader_refuses_what_the_publisher_got_wrong(folder, monkeypatch):
    plan = plan_of(folder)
    right = publication.Prepared.generalised

    def wrong(prepared):
        shown = right(prepared)
        place = shown.rows.nonzero()[0]
        raw = {one.name: [prepared.cells[one.name][row] for row in place] for one in prepared.columns}
        labels = {name: type(shown.labels[name])((len(place),), object) for name in raw}
        for name, values in raw.items():
            labels[name][:] = values
        return type(shown)(shown.rows, labels, shown.losses, shown.suppressed, shown.facts)

    monkeypatch.setattr(publication.Prepared, "generalised", wrong)
    with pytest.raises(LimitNotMet, match="k = 1 and the plan asks for 3: nothing was published"):
        published(folder, plan)
    assert nothing_is_left(folder)


def nothing_is_left(folder):
    """No publication, no folder of its making, and a vault that knows nobody."""
    names = {path.name for path in folder.iterdir()} - {"plan.toml", "visits.csv", "vault"}
    with Vault(folder / "vault", KEY) as vault:
        return not names and not vault._base.execute("SELECT count(*) FROM subject").fetchone()[0]


def test_an_error_at_the_end_leaves_nothing(folder, monkeypatch):
    monkeypatch.setattr(Vault, "record", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(WriteFailed, match="no space left"):
        published(folder, plan_of(folder))
    assert nothing_is_left(folder)


def test_a_folder_that_is_not_empty_is_refused(folder):
    (folder / "out").mkdir()
    published(folder, plan_of(folder))
    with pytest.raises(BadInput, match="never written over another"):
        published(folder, plan_of(folder))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('action = "target"', 'action = ""', 'column "minutes" needs an action of drop, keep'),
        ('action = "target"', 'action = "targt"', 'did you mean "target"'),
        ('action = "target"', 'action = "keep"', "`reason` is missing"),
        ('action = "target"', 'action = "target"\nwhy = 1', "`why` is not a key of a plan; expected here: action"),
        ("[columns.minutes]", "[columns.minuts]", 'has a column "minutes" that the plan does not know'),
        ("k = 3", "k = 1", "`k`: expected greater than or equal to 2"),
        ("k = 3", "k = 121", "the table has 120 people"),
        ("k = 3\n", "k = 100\n", "at least k = 100 must stay|No generalisation meets"),
        ("suppress = 20", "suppress = 118", "at least k = 3 must stay"),
        ("distinct_l = 2", "distinct_l = 4", "fewer different values than the l"),
        ("distinct_l = 2", "entropy_l = 2.0", "not monotone under suppression"),
        ("distinct_l = 2", "t = 0.1", "not monotone under suppression"),
        ("distinct_l = 2", "", "`distinct_l`, `entropy_l` or `t`"),
        ('k = 3', 'k = 3\nmethod = "mondrian"', "leaves no one out"),
        ('kind = "ranges"', 'kind = "range"', "`hierarchy.kind`: expected ranges, cuts"),
        ("low = 18", "low = 30", 'Column "age", row [0-9]+: its hierarchy of ranges does not cover'),
        ("widths = [10, 20]", "widths = [10, 25]", "each width a multiple of the one before"),
        ('people = "visitor"', 'people = "door"', 'takes a column of people with the action "pseudonym"'),
        ('link = "person"', 'link = "none"', 'takes a column of people with the action "drop"'),
        ('people = "visitor"\nlink = "person"', 'link = "rows"', "links the rows of a person, and k counts people"),
        ('mode = "vault"', 'mode = "stateless"', 'set mode = "vault"'),
        ('people = "visitor"\n', "", "`people`, the column that says whose a row is"),
        ('action = "drop"', 'action = "target"', 'Column "remark", row 1: free text is not published'),
        ('[columns.minutes]\naction = "target"', '[columns.minutes]\naction = "sensitive"\ndistinct_l = 2',
         'Column "minutes", row [0-9]+: a sensitive column has one value for each person'),
        ('normalise = ["nfkc", "case", "spaces"]', 'normalise = ["date"]', 'Column "visitor", row 1: an identifier'),
    ],
)  # fmt: skip
def test_what_is_refused_and_leaves_nothing(folder, old, new, said):
    with pytest.raises(BadInput, match=said) as refused:
        published(folder, plan_of(folder, (old, new)))
    assert "Person 0" not in str(refused.value)
    assert nothing_is_left(folder)


def test_a_publication_has_a_recipient(folder):
    with pytest.raises(BadInput, match="the name is empty"):
        published(folder, plan_of(folder), recipient=" ")


def test_a_vault_is_given_exactly_where_the_plan_has_one(folder):
    plan = plan_of(folder)
    with pytest.raises(BadInput, match="name the vault with --vault"):
        publication.publish(folder / "visits.csv", plan, KEY, folder / "out", recipient="university")
