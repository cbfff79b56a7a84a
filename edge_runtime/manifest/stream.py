"""The manifest's ``stream``: how the frames of a camera are held together, null for single frames."""

from typing import Any

from edgeveil.edge_runtime.formats.validate import one_of, record, refuse, text, whole

MAX_VOTES = 1000
MAX_PERIOD_S = 86400
MAX_GAP = 1000


def check_stream(stream: Any) -> None:
    """Raise ``BundleRefused`` unless this is null or says how a stream is held, with the keys for that and no others.

    ``track``: ``votes`` frames decide a track's class. ``period``: ``period_s`` seconds share a draw. ``bout``: a
    class keeps a draw until ``gap`` frames in a row were of other classes. ``frame``: nothing is held. The maker has
    ``acknowledged`` the last two.
    """
    if stream is None:
        return
    bout = type(stream) is dict and stream.get("hold") == "bout"
    record(stream, "stream", ("hold", "votes", "period_s", "acknowledged") + (("gap",) if bout else ()))
    hold = one_of(stream["hold"], "stream.hold", ("track", "period", "bout", "frame"))
    belongs = {"votes": ("track",), "period_s": ("period",), "acknowledged": ("bout", "frame")}
    for key, to in belongs.items():
        if hold not in to and stream[key] is not None:
            refuse("bad-value", "stream." + key, "expected null where the stream is held by {}".format(hold))
    if hold == "track":
        whole(stream["votes"], "stream.votes", 1, MAX_VOTES)
    elif hold == "period":
        whole(stream["period_s"], "stream.period_s", 1, MAX_PERIOD_S)
    else:
        _check_acknowledged(stream["acknowledged"], hold)
    if hold == "bout":
        whole(stream["gap"], "stream.gap", 1, MAX_GAP)


def _check_acknowledged(reason: Any, hold: str) -> None:
    if not text(reason, "stream.acknowledged"):
        problem = "expected the maker's reason to release a code for every {}".format(hold)
        refuse("bad-value", "stream.acknowledged", problem)
