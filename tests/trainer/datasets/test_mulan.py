"""Dense ARFF: what it means, and what is refused by its line."""

import gzip

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.loaders.mulan import MultiTarget, arff_bytes, parse_arff
from edgeveil.trainer.datasets.readings import checked_features, checked_labels

HEAD = "% a comment\n@RELATION 'two words'\n\n@ATTRIBUTE height numeric\n@attribute 'it''s' REAL\n"


def parse(text: str):
    return parse_arff(text.encode(), "x.arff")


def test_numbers_nominals_quotes_and_comments():
    names, values = parse(
        "% a comment\n@RELATION 'two words'\n\n@ATTRIBUTE height numeric\n@attribute 'wid\\'th' REAL % note\n"
        "@attribute 25400 integer\n@attribute label {0, 1}\n@attribute kind {'a b', \"c\", d}\n\n@DATA\n"
        "1.5, -2e3 ,7,1,'a b'\n% between\n\n 0,0,0,0,d\n"
    )
    assert names == ["height", "wid'th", "25400", "label", "kind"]
    np.testing.assert_array_equal(values, [[1.5, -2000, 7, 1, 0], [0, 0, 0, 0, 2]])


def test_gzip_and_plain(tmp_path):
    text = b"@relation r\n@attribute a numeric\n@data\n1\n2\n"
    (tmp_path / "a.arff").write_bytes(text)
    (tmp_path / "b.arff.gz").write_bytes(gzip.compress(text))
    assert arff_bytes(tmp_path / "a.arff") == arff_bytes(tmp_path / "b.arff.gz") == text
    assert parse_arff(text, "a.arff")[1].tolist() == [[1], [2]]


START = "@relation r\n@attribute a numeric\n@attribute b {x,y}\n@data\n"
BAD = {
    "no data section": ("@relation r\n@attribute a numeric\n", "no @data"),
    "data without attributes": ("@relation r\n@data\n1\n", "line 2"),
    "not ARFF": ("a,b\n1,2\n", "line 1: expected @attribute"),
    "a string attribute": ("@attribute a string\n@data\n", "line 1: attribute a is of kind string"),
    "a date attribute": ("@attribute a date 'yyyy'\n@data\n", "kind date"),
    "an attribute without a kind": ("@attribute a\n@data\n", "line 1"),
    "an attribute twice": ("@attribute a real\n@attribute a real\n@data\n1,2\n", "declared twice"),
    "a category twice": ("@attribute a {x,x}\n@data\nx\n", "each of them once"),
    "no rows": (START, "no rows"),
    "too few values": (START + "1,x\n1\n", "line 6: 1 values for 2"),
    "too many values": (START + "1,x,3\n", "line 5: 3 values for 2"),
    "a missing value": (START + "?,x\n", "line 5: the value of a is missing"),
    "nan": (START + "nan,x\n", "line 5: the value of a"),
    "an unknown category": (START + "1,z\n", "line 5: the value of b"),
    "a sparse row": (START + "{0 1}\n", "sparse"),
    "a quote left open": (START + "1,'x\n", "line 5"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_by_line(name):
    text, word = BAD[name]
    with pytest.raises(BadInput, match=word) as caught:
        parse(text)
    assert str(caught.value).startswith("x.arff: " if name != "no rows" else "x.arff has")


def test_a_refusal_never_shows_the_value():
    with pytest.raises(BadInput) as caught:
        parse(START + "secret17,x\n")
    assert "secret17" not in str(caught.value)


def test_unreadable_files_are_refused(tmp_path):
    (tmp_path / "cut.arff.gz").write_bytes(gzip.compress(b"@relation r\n" * 100)[:-9])
    (tmp_path / "latin.arff").write_bytes(b"% \xe9\n" + START.encode())
    for name in ("cut.arff.gz", "latin.arff", "absent.arff"):
        with pytest.raises(BadInput, match=name):
            parse_arff(arff_bytes(tmp_path / name), name)


# Vectors with several labels: what is refused, and the choice of the wanted ones.


X, Y = np.arange(12.0).reshape(4, 3) ** 2, np.eye(4, 2)


@pytest.mark.parametrize(
    ("check", "values", "word"),
    [
        (checked_features, np.where(X == 4, np.nan, X), "NaN"),
        (checked_features, X[0], "must be a matrix"),
        (checked_labels, np.full((4, 2), "x"), "Labels must be numbers"),
        (checked_labels, np.full((4, 2), np.inf), "Labels hold NaN"),
    ],
)
def test_bad_values_are_refused(check, values, word):
    with pytest.raises(BadInput, match=word):
        check(values)


def test_the_first_labels_are_wanted():
    data = MultiTarget("mine", X, Y, ("P", "q"))
    found = data.readings(wanted=1, target="p", sensitive="Q")
    wanted, hidden = found.labels.parts(np.arange(4))
    np.testing.assert_array_equal(np.hstack([wanted, hidden]), Y)
    np.testing.assert_array_equal(np.stack([found.y, found.z], axis=1), Y)
    for count in (0, 2, -1):
        with pytest.raises(BadInput, match="can be wanted"):
            data.readings(wanted=count, target="p", sensitive="q")
    with pytest.raises(BadInput, match=r'`data.sensitive`: expected "q"; got "p"'):
        data.readings(wanted=1, target="p", sensitive="p")
