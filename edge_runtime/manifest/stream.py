"""The manifest's ``stream``: how the frames of a camera are held together, null for single frames."""

from typing import Any

from edgeveil.edge_runtime.formats.validate import one_of, record, refuse, text, whole

MAX_VOTES = 1000
MAX_PERIOD_S = 86400


def check_stream(stream: Any) -> None:
    """Raise ``BundleRefused`` unless this is null or says how a stream is held, with the keys for that and no others.

    ``track``: ``votes`` frames decide a track's class. ``period``: ``period_s`` seconds share a draw. ``frame``:
    nothing is held, which the maker has ``acknowledged``.
    """
    if stream is None:
        return
    record(stream, "stream", ("hold", "votes", "period_s", "acknowledged"))
    hold = one_of(stream["hold"], "stream.hold", ("track", "period", "frame"))
    belongs = {"votes": "track", "period_s": "period", "acknowledged": "frame"}
    for key, to in belongs.items():
        if hold != to and stream[key] is not None:
            refuse("bad-value", "stream." + key, "expected null where the stream is held by {}".format(hold))
    if hold == "track":
        whole(stream["votes"], "stream.votes", 1, MAX_VOTES)
    elif hold == "period":
        whole(stream["period_s"], "stream.period_s", 1, MAX_PERIOD_S)
    elif not text(stream["acknowledged"], "stream.acknowledged"):
        refuse("bad-value", "stream.acknowledged", "expected the maker's reason to release a code for every frame")
