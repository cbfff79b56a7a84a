"""A running service reads its trust again: a revoked key ends it, a fault alone does not."""

import dataclasses
import functools
import json
import signal
import time
from types import SimpleNamespace

import pytest

from edgeveil.edge_runtime.bundle import index_seen
from edgeveil.edge_runtime.bundle.index_seen import Seen, count_up, write_offered, write_seen
from edgeveil.edge_runtime.bundle.reader import read_bundle
from edgeveil.edge_runtime.bundle.trust_store import open_trust, update_trust
from edgeveil.edge_runtime.errors import DeviceFailed, PrivacyStop
from edgeveil.edge_runtime.outside.service import Service
from edgeveil.edge_runtime.outside.trust_watch import EVERY_S, TrustWatch
from edgeveil.edge_runtime.releases.store import Releases
from tests.edge_runtime.bundle.signed_trust import device, private, role, trust_file
from tests.support import bundles, live_fakes
from tests.support.broker_services import arguments, finish, start

GONE = {"roles": {"maker": role(["other"]), "release": role(["other"])}}


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def running(tmp_path):
    folder = device(tmp_path / "trust", trust_file(1))
    bundle = read_bundle(bundles.make_bundle(tmp_path / "b").path, open_trust(folder))
    said, clock = [], Clock()
    watch = TrustWatch(str(folder), lambda event, **facts: said.append(event), clock)
    return folder, functools.partial(watch.check, bundle), watch, clock, said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({**GONE, "revoked": (bundles.public_hex(bundles.KEY),)}, "the revoked key"),
        (GONE, "not in the trust folder"),
        ({"security_version": 2}, "security version 1; this device takes 2"),
    ],
)
def test_what_the_trust_takes_no_more_ends_within_a_minute(running, change, words):
    folder, check, _, clock, _ = running
    assert update_trust(str(folder), trust_file(2, **change))
    clock.now = EVERY_S - 1
    check()
    clock.now = EVERY_S
    with pytest.raises(PrivacyStop, match=words):
        check()


def test_what_the_index_offers_reaches_the_sinks_within_a_minute_and_once(running):
    folder, check, watch, clock, _ = running
    shown = []
    sinks = SimpleNamespace(sinks={"a": 1}, releases=lambda *releases: shown.append(releases))
    link = SimpleNamespace(manifest_sha256="ab" * 32)
    service = SimpleNamespace(link=link, trust_watch=watch, sinks=sinks, _shown_releases=("", ""))
    Service._show_releases(service)
    write_offered(str(folder.parent), "cd" * 32)
    check()
    Service._show_releases(service)
    clock.now = EVERY_S
    check()
    for _ in range(2):
        Service._show_releases(service)
    assert shown == [("ab" * 32, "ab" * 32), ("ab" * 32, "cd" * 32)]


def test_a_signal_makes_it_look_at_once(running):
    folder, check, _, _, _ = running
    update_trust(str(folder), trust_file(2, **GONE))
    with pytest.raises(PrivacyStop):
        check(now=True)


def test_a_lost_file_is_said_once_and_ends_nothing(running):
    folder, check, watch, clock, said = running
    trust = (folder / "trust.json").read_bytes()
    (folder / "trust.json").unlink()
    for minute in (1, 2):
        clock.now = minute * EVERY_S
        check()
    assert said == ["trust-unreadable"]
    assert "trust.json is missing" in watch.problem
    assert watch.gauges()["trust-readable"] == 0
    (folder / "trust.json").write_bytes(trust)
    clock.now = 3 * EVERY_S
    check()
    assert watch.problem == ""


@pytest.mark.parametrize(("days_ago", "ends"), [(8, True), (6, False)])
def test_an_index_that_stays_old_ends_it_where_the_trust_says_so(running, monkeypatch, days_ago, ends):
    folder, check, watch, clock, _ = running
    monkeypatch.setattr(index_seen, "clock_synchronised", lambda: True)
    seen = {"schema": 2, "name": "hall", "audience": "", "version": 3, "sha256": "", "asked_at": 0, "others": {}}
    seen["changed_at"] = int(time.time()) - days_ago * 86400
    (folder.parent / "index-seen.json").write_text(json.dumps(seen, sort_keys=True, separators=(",", ":")))
    assert watch.gauges() == {"trust-readable": 1.0}
    clock.now = EVERY_S
    check()  # no limit in the trust file: shown alone
    assert watch.index["version"] == 3
    assert set(watch.gauges()) == {"trust-readable", "index-age-seconds"}
    assert watch.gauges()["index-age-seconds"] == pytest.approx(days_ago * 86400, abs=60)
    assert update_trust(str(folder), trust_file(2, index_stale_days=7))
    clock.now = 2 * EVERY_S
    if ends:
        with pytest.raises(PrivacyStop, match=r"of version 3 for 8 days, and its trust file allows 7"):
            check()
    else:
        check()
    assert watch.gauges()["index-stale-seconds"] == 7 * 86400


BOTH = ("index-seen.json", "index-seen-copy.json")


@pytest.mark.parametrize("damage", [b"{", b'{"schema":4}', None], ids=["garbage", "schema", "lost"])
@pytest.mark.parametrize("which", [BOTH[:1], BOTH[1:], BOTH], ids=["first", "copy", "both"])
def test_no_damage_stops_the_days_without_a_newer_index(running, monkeypatch, damage, which):
    """One whole record is enough. Without one, the days count from the start of the board."""
    folder, check, watch, clock, _ = running
    monkeypatch.setattr(index_seen, "clock_synchronised", lambda: True)
    assert update_trust(str(folder), trust_file(2, index_stale_days=7))
    write_seen(str(folder.parent), Seen("hall", version=3, changed_at=int(time.time()) - 8 * 86400))
    for name in which:
        (folder.parent / name).unlink() if damage is None else (folder.parent / name).write_bytes(damage)
    monkeypatch.setattr("edgeveil.edge_runtime.outside.trust_watch.up_s", lambda: up_days * 86400.0)
    up_days = 6
    clock.now = EVERY_S
    if which == BOTH:
        check()
        assert bool(watch.problem) == (damage is not None)
    up_days = 8
    clock.now = 2 * EVERY_S
    with pytest.raises(PrivacyStop, match="for 8 days, and its trust file allows 7"):
        check()


def test_a_board_that_lost_both_records_of_the_index_does_not_start(tmp_path):
    folder = device(tmp_path / "opt/trust", trust_file(1, index_stale_days=7))
    releases = Releases(str(folder.parent), lambda floor: open_trust(folder, floor=floor))
    releases.install(bundles.make_bundle(tmp_path / "b").path.read_bytes(), lambda *_: None)
    watch = TrustWatch(str(folder), lambda *_, **__: None, time.monotonic)
    watch.read()  # before the first count there is none
    count_up(str(folder.parent))
    releases.recover()
    for name in BOTH:
        (folder.parent / name).unlink()
    with pytest.raises(DeviceFailed, match="this board had them"):
        watch.read()
    releases.repair()
    watch.read()


def test_the_bundle_of_a_reload_is_the_one_that_is_held(running, tmp_path):
    folder, _, watch, _, _ = running
    assert update_trust(str(folder), trust_file(2, **GONE))
    made = bundles.make_bundle(tmp_path / "newer", key=private("other"))
    watch.check(read_bundle(made.path, open_trust(folder)), now=True)


def test_nothing_is_verified_again_while_nothing_changes(running, monkeypatch):
    _, check, _, clock, _ = running
    check(now=True)
    monkeypatch.setattr("edgeveil.edge_runtime.outside.trust_watch.open_trust", lambda folder: 1 / 0)
    for minute in range(1, 5):
        clock.now = minute * EVERY_S
        check()


def test_a_service_whose_key_is_revoked_ends_at_sighup(tmp_path):
    """The real processes: raw frames in, revoked on disk, a signal; exit code 70, as for every privacy stop."""
    folder = device(tmp_path / "trust", trust_file(1))
    made = bundles.make_bundle(tmp_path / "b", example=live_fakes.wide_example())
    words = arguments(dataclasses.replace(made, trust=folder), "fake:0", f"npz:{tmp_path}/out.npz")
    process = start(words, tmp_path)
    for line in process.stderr:
        if '"event": "source"' in line:
            break
    assert update_trust(str(folder), trust_file(2, **GONE, revoked=(bundles.public_hex(bundles.KEY),)))
    process.send_signal(signal.SIGHUP)
    code, _, events = finish(process, timeout_s=20)
    assert code == PrivacyStop.exit_code
    assert "revoked key" in next(event for event in events if event["event"] == "failed")["message"]
