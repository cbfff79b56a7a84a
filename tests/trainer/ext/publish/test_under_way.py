"""People of a publication that comes to nothing go out of the vault again, with all their bytes; nobody else does."""

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.ext.publish.master_key import MasterKey, Scope
from edgeveil.trainer.ext.publish.vault import Publication, Vault

KEY = MasterKey(bytes(range(64)))
OLD, NEW = [f"visitor {number}" for number in range(50)], [f"guest {number}" for number in range(50)]


@pytest.fixture
def vault(tmp_path):
    with Vault(tmp_path / "vault", KEY) as opened:
        begin(opened, "first", OLD)
        send(opened, "first", OLD)
        yield opened


def begin(vault, publication, people, field="visitor"):
    with vault.change():
        vault.normalise_as(field, ["case"])
        salts = vault.salts(field, people)
        vault.under_way.note(publication, field, salts)
    return salts


def send(vault, publication, people, field="visitor"):
    with vault.change():
        vault.record({Publication(publication, Scope("university", field, 1)): vault.salts(field, people)})
        vault.under_way.done(publication)


def rows(vault):
    """All rows of the vault."""
    tables = ("subject", "publication", "held", "waiting", "field")
    return [vault._base.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in tables]  # noqa: S608


def test_a_withdrawn_publication_leaves_the_vault_as_it_was(vault, tmp_path):
    before = rows(vault)
    salts = begin(vault, "second", [*OLD[:10], *NEW]) + begin(vault, "second", NEW, field="badge")
    vault.under_way.withdraw("second")
    assert rows(vault) == before
    everything = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert [salt in everything for salt in salts] == [True] * 10 + [False] * 100
    vault.under_way.withdraw("never begun")
    assert rows(vault) == before


def test_who_waits_for_another_publication_or_was_sent_in_it_stays(vault):
    begin(vault, "second", NEW)
    salts = begin(vault, "third", NEW[:20])
    vault.under_way.withdraw("second")
    assert [vault.knows(salt) for salt in salts] == [True] * 20
    with pytest.raises(BadInput, match="no such subject"):
        vault.salt("visitor", NEW[30])
    begin(vault, "fourth", NEW[:10])
    send(vault, "third", NEW[:20])
    vault.under_way.withdraw("fourth")
    assert [len(vault.holding(vault.salt("visitor", one))) for one in NEW[:20]] == [1] * 20


def test_an_erasure_takes_who_waits_too(vault):
    (salt,) = begin(vault, "second", NEW[:1])
    vault.erase("visitor", NEW[0])
    assert not vault.knows(salt)
    assert not rows(vault)[3]
