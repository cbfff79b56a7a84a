"""The service with a bundle that counts: ticks go on when the budget is spent, and nothing leaves without a ledger."""

import signal
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from edgeveil.edge_runtime.bundle.opened import open_verified
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.ext.ledger.book import Ledger, create
from edgeveil.edge_runtime.ipc.counters import Schedule
from edgeveil.edge_runtime.machine import machine_id
from edgeveil.edge_runtime.outside.emission import Unlimited, open_allowance
from tests.support import bundles, live_fakes
from tests.support.broker_services import arguments, finish, start
from tests.support.promised import held_examples, local_examples
from tests.support.promised.counted_bundles import COST, counted_example

MICRO = 10**6
# The policy of the owner allows less from the moment that a file is there.
LOWERED = """
import os
from edgeveil.edge_runtime.manifest.manifest import Limit
from edgeveil.edge_runtime.bundle import opened
plain = opened.price_of
def price_of(manifest, policy):
    price = plain(manifest, policy)
    return price._replace(limits=[*price.limits, Limit(2 * 10**6, None)]) if os.path.exists({!r}) else price
opened.price_of = price_of
from edgeveil.edge_runtime.ipc.record import FLAT
from edgeveil.edge_runtime.outside.emission import Emission
take = Emission.take
def writing(self, record):
    if record.state == FLAT:
        with open({!r}, "ab") as file:
            file.write(record.frame.data.tobytes())
    return take(self, record)
Emission.take = writing
"""


@pytest.fixture(scope="module", autouse=True)
def machine():
    try:
        machine_id()
    except BadInput as error:
        pytest.skip(str(error))


def write_lines(folder):
    """30 frames as a file of text; returns the source that reads them."""
    (folder / "in.csv").write_text("\n".join(",".join(["1"] * live_fakes.WIDE) for _ in range(30)))
    return f"csv:{folder}/in.csv"


def spent(ledger):
    return Ledger(str(ledger)).book().lifetime


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    example = counted_example(releases=20, example=live_fakes.wide_example())
    return bundles.make_bundle(tmp_path_factory.mktemp("counted"), example=example)


def test_ticks_go_on_when_the_budget_is_spent_and_a_restart_renews_nothing(counted, tmp_path):
    create(str(tmp_path / "ledger"))
    for released, seconds in ((20, 2), (0, 1)):
        out = tmp_path / f"{released}.npz"
        words = arguments(counted, "fake:0?fps=60", f"npz:{out}", ledger=tmp_path / "ledger", duration=seconds)
        code, document, _ = finish(start(words, tmp_path))
        assert code == 0
        assert document["frames_out"] == released
        assert document["frames_in"] == document["frames_out"] + sum(document["dropped"].values())
        with np.load(out) as left:
            assert len(left["index"]) >= seconds * 25 - 3  # a tick each
            assert left["index"].tolist() == list(range(len(left["index"])))
        assert spent(tmp_path / "ledger") == 20 * COST


def test_a_reload_renews_nothing(tmp_path):
    """Reports are 64 fair bits, so that each that left is seen; the first reload comes before the budget is spent."""
    releases = 12

    def put(name, most):
        manifest, members = local_examples.example("duchi-linf", 1.0, live_fakes.WIDE)
        manifest["spending"]["most_micro_epsilon"] = most * MICRO
        return bundles.make_bundle(tmp_path, example=({**manifest, "name": name}, members))

    def reload_(name, most):
        put(name, most)
        process.send_signal(signal.SIGHUP)
        return next(line for line in process.stderr if '"reloaded"' in line or '"reload-refused"' in line)

    create(str(tmp_path / "ledger"))
    sink, ledger = f"npz:{tmp_path}/out.npz", tmp_path / "ledger"
    words = arguments(put("one", releases), "fake:0?fps=60", sink, ledger=ledger, fps=5)
    lowered = tmp_path / "lowered"
    process = start(words, tmp_path, LOWERED.format(str(lowered), str(tmp_path / "flat")))
    try:
        next(line for line in process.stderr if '"source"' in line)
        time.sleep(0.6)  # a few ticks
        assert '"reloaded"' in reload_("two", releases)
        assert "promises another epsilon" in reload_("more", 1000)
        time.sleep(releases / 5 + 0.5)
        assert '"reloaded"' in reload_("three", releases)
        lowered.touch()
        assert "the policy allows another" in reload_("three", releases)
        lowered.unlink()
        time.sleep(2)  # as many ticks as would be seen if it began anew
        process.send_signal(signal.SIGTERM)
        code, document, _ = finish(process)
    finally:
        process.kill()
    assert (code, document["name"], document["frames_out"]) == (0, "three", releases)
    assert spent(tmp_path / "ledger") == releases * MICRO
    with np.load(tmp_path / "out.npz") as left:
        rows = {row.tobytes() for row in left["x"]}
    # Ticks before the first report of each inside have its flat record, which is of no reading.
    flat = (tmp_path / "flat").read_bytes()
    size = len(next(iter(rows)))
    assert len(rows - {flat[at : at + size] for at in range(0, len(flat), size)}) == releases


def test_an_outside_that_asks_no_ledger_gets_no_more_from_the_inside(counted, tmp_path):
    """One that was taken over: the inside was told at its start what is left, and makes that many."""
    first = "from edgeveil.edge_runtime.ext.ledger.allowance import Allowance; Allowance.take = lambda *_: True"
    sources = (("fake:0?fps=60", f"npz:{tmp_path}/out.npz", 0), (write_lines(tmp_path), "preview:0", 3))
    services = []
    for number, (source, sink, _) in enumerate(sources):
        create(str(tmp_path / f"ledger-{number}"))
        words = arguments(counted, source, sink, ledger=tmp_path / f"ledger-{number}", duration=2)
        services.append(start(words, tmp_path, first))
    for service, (_, _, ends) in zip(services, sources, strict=True):
        code, document, _ = finish(service)
        assert (code, document["frames_out"]) == (ends, 20)
        assert document["dropped"]["budget-spent"] > 0


def test_a_file_into_a_service_ends_with_three(counted, tmp_path):
    create(str(tmp_path / "ledger"))
    words = arguments(counted, write_lines(tmp_path), "preview:0", ledger=tmp_path / "ledger")
    code, document, _ = finish(start(words, tmp_path))
    assert code == 3
    assert (document["frames_in"], document["frames_out"]) == (30, 20)
    assert document["dropped"] == {"budget-spent": 10}


@pytest.mark.parametrize("data", [None, b"{}"])
def test_without_a_ledger_nothing_leaves(counted, tmp_path, data):
    if data is not None:
        (tmp_path / "ledger").write_bytes(data)
    words = arguments(counted, "fake:0?fps=60", f"npz:{tmp_path}/out.npz", ledger=tmp_path / "ledger", duration=2)
    code, document, events = finish(start(words, tmp_path))
    assert (code, document) == (70, None)
    assert any(str(tmp_path / "ledger") in event.get("message", "") for event in events)
    assert not Path(tmp_path / "out.npz").exists()


def test_a_bundle_that_counts_nothing_needs_none(tmp_path):
    opened = open_verified(bundles.make_bundle(tmp_path).path, bundles.trust())
    assert isinstance(
        open_allowance(SimpleNamespace(subject_column=None), opened, Schedule(0.1, 1, "flat", 60.0, 1)), Unlimited
    )


def test_a_service_refuses_a_column_of_subjects(tmp_path):
    opened = open_verified(bundles.make_bundle(tmp_path).path, bundles.trust())
    with pytest.raises(BadInput, match="--subject-column with files alone"):
        open_allowance(SimpleNamespace(subject_column=1), opened, Schedule(0.1, 1, "flat", 60.0, 1))


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """Ten answers may leave; each lasts for a day, or until the inside ends."""
    example = held_examples.example("duchi-linf", "period", live_fakes.WIDE)
    return bundles.make_bundle(tmp_path_factory.mktemp("held"), example=example)


def test_a_stream_of_one_answer_costs_one_a_restart_another_and_none_begins_beyond_the_last(held, tmp_path):
    """Two services at a time: of one that has ten answers, and of one that has a single one."""
    manifest, members = held_examples.example("duchi-linf", "period", live_fakes.WIDE)
    manifest["spending"]["most_micro_epsilon"] = MICRO
    one = bundles.make_bundle(tmp_path, example=(manifest, members))
    ledgers = [tmp_path / "ten", tmp_path / "single"]
    for ledger in ledgers:
        create(str(ledger))

    def ran(made, ledger):
        words = arguments(made, "fake:0?fps=60", f"npz:{ledger}.npz", ledger=ledger, duration=1.5)
        return start(words, tmp_path)

    for starts in (1, 2):
        services = [ran(made, ledger) for made, ledger in zip((held, one), ledgers, strict=True)]
        (code, ten, _), (other, single, _) = map(finish, services)
        assert (code, other) == (0, 0)
        assert ten["frames_out"] > 5  # far more than one answer, on a slow machine too
        # The answer, and one that was reserved for the next.
        assert spent(ledgers[0]) == 2 * starts * MICRO
        assert (single["frames_out"] > 5) is (starts == 1)
        assert ("budget-spent" in single["dropped"]) == (single["frames_out"] == 0) == (starts == 2)
        assert spent(ledgers[1]) == MICRO


def test_a_file_of_one_answer_costs_one(held, tmp_path):
    create(str(tmp_path / "ledger"))
    words = arguments(held, write_lines(tmp_path), "preview:0", ledger=tmp_path / "ledger")
    code, document, _ = finish(start(words, tmp_path))
    assert (code, document["frames_out"]) == (0, 30)
    assert spent(tmp_path / "ledger") <= 2 * MICRO
