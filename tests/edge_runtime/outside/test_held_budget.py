"""The service with a bundle whose answers are kept: the ledger is charged for each answer, and not for each release."""

import pytest

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.ledger.ledger_file import Ledger, create
from edgeveil.edge_runtime.machine import machine_id
from tests.support import bundles, live_fakes
from tests.support.broker_services import arguments, finish, start
from tests.support.promised import held_examples

MICRO = 10**6


@pytest.fixture(scope="module", autouse=True)
def machine():
    try:
        machine_id()
    except BadInput as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """Ten answers may leave; each lasts for a day, or until the inside ends."""
    example = held_examples.example("duchi-linf", "period", live_fakes.WIDE)
    return bundles.make_bundle(tmp_path_factory.mktemp("held"), example=example)


def test_a_stream_of_one_answer_costs_one_and_a_restart_another(held, tmp_path):
    create(str(tmp_path / "ledger"))
    for starts in (1, 2):
        words = arguments(held, "fake:0?fps=60", f"npz:{tmp_path}/out.npz", ledger=tmp_path / "ledger", duration=3)
        code, document, _ = finish(start(words, tmp_path))
        assert code == 0
        assert document["frames_out"] > 20
        # The answer, and one that was reserved for the next.
        assert Ledger(str(tmp_path / "ledger")).book().lifetime == 2 * starts * MICRO


def test_a_file_of_one_answer_costs_one(held, tmp_path):
    create(str(tmp_path / "ledger"))
    (tmp_path / "in.csv").write_text("\n".join(",".join(["1"] * live_fakes.WIDE) for _ in range(30)))
    words = arguments(held, f"csv:{tmp_path}/in.csv", "preview:0", ledger=tmp_path / "ledger")
    code, document, _ = finish(start(words, tmp_path))
    assert (code, document["frames_out"]) == (0, 30)
    assert Ledger(str(tmp_path / "ledger")).book().lifetime <= 2 * MICRO


def test_the_last_answer_goes_on_and_the_next_one_does_not_begin(tmp_path):
    manifest, members = held_examples.example("duchi-linf", "period", live_fakes.WIDE)
    manifest["spending"]["most_micro_epsilon"] = MICRO
    one = bundles.make_bundle(tmp_path, example=(manifest, members))
    create(str(tmp_path / "ledger"))
    for more_than, dropped in ((20, False), (-1, True)):
        words = arguments(one, "fake:0?fps=60", f"npz:{tmp_path}/out.npz", ledger=tmp_path / "ledger", duration=3)
        code, document, _ = finish(start(words, tmp_path))
        assert code == 0
        assert document["frames_out"] > more_than
        assert ("budget-spent" in document["dropped"]) == dropped == (document["frames_out"] == 0)
        assert Ledger(str(tmp_path / "ledger")).book().lifetime == MICRO
