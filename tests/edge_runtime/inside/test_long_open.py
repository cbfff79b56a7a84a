"""A bundle that takes long to open: an engine that is built is progress, a library that stands still is a hang."""

import pytest

from edgeveil.edge_runtime import device
from edgeveil.edge_runtime.releases.runtimes import TRIAL_FRAMES_S
from tests.support import bundles, live_fakes
from tests.support.broker_services import arguments, finish, start

# In the inside, before its bundle is opened: what an interpreter does meanwhile.
OPENS = """
from tests.support import live_fakes
from edgeveil.edge_runtime.outside import process_table
from edgeveil.edge_runtime.outside import supervisor
supervisor.START_S = 0.4
inner = {inner!r}
process_table.command = lambda module: live_fakes.command(module, inner)
"""
INNER = """
from edgeveil.edge_runtime.pipeline.perturber import Perturber
real = Perturber.open
def slow(*arguments, **options):
    import ctypes, time
    {how}
    return real(*arguments, **options)
Perturber.open = slow
"""
LETS_PYTHON_RUN = "time.sleep(3)"
COMPUTES_WITH_PYTHONS_LOCK = "end = time.process_time() + 3\n    while time.process_time() < end: sum(range(3 * 10**7))"
STANDS_STILL_WITH_PYTHONS_LOCK = "ctypes.PyDLL(None).sleep(40)"


def opened(tmp_path, how, **flags):
    made = bundles.make_bundle(tmp_path / "b", example=live_fakes.wide_example())
    words = arguments(made, "fake:5?fps=50", f"npz:{tmp_path}/out.npz", **{"hang-after": 0.6, "restarts": 0, **flags})
    return finish(start(words, tmp_path, OPENS.format(inner=INNER.format(how=how))))


@pytest.mark.parametrize("how", [LETS_PYTHON_RUN, COMPUTES_WITH_PYTHONS_LOCK])
def test_what_takes_long_and_gets_on_is_waited_for(tmp_path, how):
    """Longer than what was a hang: 3 x 0.6 s, and 0.4 s to start."""
    code, document, events = opened(tmp_path, how)
    assert (code, document["frames_in"]) == (0, 5), events
    assert not [event for event in events if event["event"] == "hang"]


def test_what_stands_still_is_a_hang(tmp_path):
    code, _, events = opened(tmp_path, STANDS_STILL_WITH_PYTHONS_LOCK)
    assert code == 4
    assert [event["event"] for event in events].count("hang") == 1


def test_an_engine_has_half_an_hour_and_a_processor_three_minutes():
    assert device.open_limit_s("tensorrt") == device.open_limit_s("tensorrt,cpu") == 1800
    assert device.open_limit_s("cpu") == device.open_limit_s("edgetpu") == 180
    assert TRIAL_FRAMES_S > 60
