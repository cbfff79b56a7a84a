"""A publication is checked with the maker's public key alone, and each fault is refused for its own reason."""

import hashlib
import json
import shutil
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from edgeveil.edge_runtime.errors import BadInput, BundleRefused
from edgeveil.edge_runtime.signing.keys import public_key_line
from edgeveil.trainer.ext.publish import frames, publishing
from edgeveil.trainer.ext.publish.verify_publication import verify_publication
from edgeveil.trainer.report import card_markdown
from edgeveil.trainer.sealing import keys
from tests.support import bundles
from tests.support.publishing import archives


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An archive, its publication in ``out``, and a folder that holds the maker's public key alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "engine_of", archives.here)
        archive = archives.make(tmp_path_factory.mktemp("made"))
        archive.published()
    archive["maker"].mkdir()
    shutil.copy(archive["keys/signing.pub"], archive["maker/maker.pub"])
    return archive


@pytest.fixture
def copy(made, tmp_path):
    return shutil.copytree(made["out"], tmp_path / "copy")


def parts(folder):
    return sorted(folder.glob("part-*"))


def signed_again(made, folder, **changes):
    """The publication with other claims, signed by its maker."""
    document = {**json.loads((folder / "publication.json").read_bytes()), **changes}
    (folder / "publication.json").write_text(json.dumps(document))
    signer = keys.Signer.open(made["keys/signing.key"])
    (folder / "publication.signed.json").write_bytes(signer.envelope(publishing.KIND, document))


def test_the_public_key_alone_is_enough(made, copy):
    found = verify_publication(copy, made["maker"])
    assert found["recipient"] == "university"
    assert found["k"] >= 3
    assert found["counted"] == "people"
    assert found["parts"] == len(parts(copy))
    assert found["cards"] == ["card.html", "publication.md"]


def changed_byte(made, folder):
    data = bytearray(parts(folder)[0].read_bytes())
    data[len(data) // 2] ^= 1
    parts(folder)[0].write_bytes(data)


def swapped(made, folder):
    one, two = parts(folder)[:2]
    data = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(data)


def left_out(made, folder):
    parts(folder)[1].unlink()


def one_more(made, folder):
    shutil.copy(parts(folder)[0], folder / "part-99999.parquet")


def other_claim(made, folder):
    path = folder / "publication.json"
    path.write_text(path.read_text().replace('"k": 3', '"k": 2', 1))


def other_signature(made, folder):
    path = folder / "publication.signed.json"
    envelope = json.loads(path.read_bytes())
    envelope["signature"] = envelope["signature"][:-2] + ("00" if envelope["signature"][-2:] != "00" else "01")
    path.write_text(json.dumps(envelope, sort_keys=True, separators=(",", ":")))


def other_signer(made, folder):
    key = keys.keygen(made.folder / "stranger") if not made["stranger"].exists() else made["stranger/signing.pub"]
    document = json.loads((folder / "publication.json").read_bytes())
    signer = keys.Signer.open(key.with_suffix(".key"))
    (folder / "publication.signed.json").write_bytes(signer.envelope(publishing.KIND, document))


def other_kind(made, folder):
    document = json.loads((folder / "publication.json").read_bytes())
    signer = keys.Signer.open(made["keys/signing.key"])
    (folder / "publication.signed.json").write_bytes(signer.envelope("index", document))


def other_card(made, folder):
    path = folder / "card.html"
    path.write_text(path.read_text().replace("was not audited", "holds"))


def without_a_card(made, folder):
    (folder / "publication.md").unlink()


def card_of_another_name(made, folder):
    cards = json.loads((folder / "publication.json").read_bytes())["cards"]
    signed_again(made, folder, cards=[{**cards[0], "name": "../card.html"}, cards[1]])


def other_format(made, folder):
    signed_again(made, folder, format=3)


def fewer_alike(made, folder):
    """A maker who signs parts in which somebody is alone."""
    path = parts(folder)[0]
    table = pyarrow.parquet.read_table(path)
    at = table.column_names.index("age")
    alone = ["18", *table.column("age").to_pylist()[1:]]
    pyarrow.parquet.write_table(table.set_column(at, "age", pyarrow.array(alone)), path)
    document = json.loads((folder / "publication.json").read_bytes())
    document["parts"][0]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    signed_again(made, folder, parts=document["parts"])


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (changed_byte, "changed-part"),
        (swapped, "swapped-part"),
        (left_out, "missing-part"),
        (one_more, "extra-file"),
        (other_claim, "another-document"),
        (other_signature, "bad-signature"),
        (other_signer, "untrusted-key"),
        (other_kind, "bad-signature"),
        (other_format, "unknown-format"),
        (fewer_alike, "too-few-alike"),
        (other_card, "changed-card"),
        (without_a_card, "missing-card"),
        (card_of_another_name, "unknown-format"),
    ],
)
def test_each_fault_has_its_reason(made, copy, fault, reason):
    fault(made, copy)
    with pytest.raises(BundleRefused) as refused:
        verify_publication(copy, made["maker"])
    assert refused.value.reason == reason


def test_a_publication_of_schema_1_is_still_verified_and_shown(tmp_path):
    """Made and signed by the code of commit baecb1ef, with a bin called "other"."""
    shutil.unpack_archive(Path(__file__).with_name("publication_of_schema_1.zip"), tmp_path)
    assert verify_publication(tmp_path, tmp_path / "maker")["k"] >= 3
    document = json.loads((tmp_path / "publication.json").read_bytes())
    assert document["format"] == 1
    for page in (card_markdown.text(document), card_markdown.render(document)):
        assert "18 to below 40: 17, 40 to below 65: 21, 65 to below 91: 18, other: 1" in page
    path = tmp_path / "publication.json"
    path.write_text(path.read_text().replace('"other": 1', '"other": 0'))
    with pytest.raises(BundleRefused, match="does not say what was signed"):
        verify_publication(tmp_path, tmp_path / "maker")


def test_names_of_parts_stay_in_the_folder(made, copy):
    document = json.loads((copy / "publication.json").read_bytes())
    document["parts"][0]["name"] = "../visits.csv"
    signed_again(made, copy, parts=document["parts"])
    with pytest.raises(BundleRefused) as refused:
        verify_publication(copy, made["maker"])
    assert refused.value.reason == "unknown-format"


def test_what_is_no_publication(made, copy, tmp_path):
    (copy / "publication.signed.json").unlink()
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        verify_publication(copy, made["maker"])
    (tmp_path / "nobody").mkdir()
    (tmp_path / "nobody/other.pub").write_text(public_key_line(bundles.trusted(bundles.STRANGER)))
    with pytest.raises(BundleRefused):
        verify_publication(made["out"], tmp_path / "nobody")
