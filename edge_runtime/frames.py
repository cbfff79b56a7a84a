"""The privacy boundary as types: a ``RawFrame`` goes in, and only a ``PerturbedFrame`` can go out.

Python cannot keep a determined programmer from memory. These types prevent mistakes: a raw frame refuses to be pickled,
copied, printed or turned into an array, and a sink accepts only a perturbed one.
"""

import hashlib
import re
import types
import unicodedata
from typing import Any, Callable, List, Mapping, NoReturn, Optional, Sequence

import numpy as np

from edgeveil.edge_runtime.errors import PrivacyStop

# Held by pipeline.py alone; a test looks for any other use.
_PIPELINE = object()
_set = object.__setattr__  # a PerturbedFrame has none of its own
_WHOLE = re.compile(r"0*([0-9]+)(?:\.0*)?")
# What shows nothing and is no format or control character: fillers, joiners and variation selectors.
_UNSEEN = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]")


def _refuse(what: str) -> Callable[..., NoReturn]:
    def method(_self: Any, *_: Any, **__: Any) -> NoReturn:
        raise PrivacyStop("a raw frame cannot be {}: perturb it and use what comes out".format(what))

    return method


class Subject(int):
    """The number of a subject: of the one spelling of its name. ``former`` is that of the spelling as it stands, by
    which a ledger of an older runtime counted."""

    former: int

    @classmethod
    def from_name(cls, name: str) -> "Subject":
        """The subject of this name. Spellings of one name are one subject, with one budget."""
        subject = cls(_number(one_spelling(name)))
        subject.former = _number(name)
        return subject


def one_spelling(name: str) -> str:
    """The name in Unicode's compatibility form, with folded case, single spaces and nothing that does not show; a whole
    number without leading zeros and fraction."""
    seen = [one for one in _UNSEEN.sub("", name) if one.isspace() or unicodedata.category(one) not in ("Cc", "Cf")]
    text = "".join(seen)
    for _ in range(2):  # folding decomposes some letters, and their parts fold once more
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    text = " ".join(text.split())
    whole = _WHOLE.fullmatch(text)
    return text if whole is None else whole.group(1)


def _number(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()[:8], "big")


class RawFrame(object):
    """One unchanged frame of a sensor. Shows its shape and type, never a value.

    ``data`` is an ndarray, ``index`` the source's number of the frame, ``captured_ns`` the capture time (nanoseconds of
    the source's clock) or None, ``track`` the number of its track in a stream (0 without tracking: the whole camera is
    one track).
    """

    __slots__ = ("_data", "captured_ns", "index", "track")

    def __init__(self, data: np.ndarray, index: int, captured_ns: Optional[int] = None, track: int = 0) -> None:
        self._data = data
        self.index = index
        self.captured_ns = captured_ns
        self.track = track

    def erase(self) -> None:
        """Overwrite the samples with zeros after use, if their memory is writable."""
        if self._data.flags.writeable:
            self._data.fill(0)

    def __repr__(self) -> str:
        return "<RawFrame {} of {} {}>".format(self.index, self._data.dtype, tuple(self._data.shape))

    # Without these, copyreg would look into the slots, and numpy would wrap the frame in an array of objects.
    __reduce__ = __reduce_ex__ = __getstate__ = _refuse("pickled")
    __copy__ = __deepcopy__ = _refuse("copied")
    __array__ = __bytes__ = _refuse("read")


class PerturbedFrame(object):
    """One frame that may be emitted. Only a ``Pipeline`` can make one; its arrays are read-only copies.

    ``index`` is the source's number of its frame (for a live source, that of the tick), ``outputs`` the arrays by name
    in the manifest's order, ``data`` the first of them, ``slot`` its slot in the tick, ``tick_ns`` the time of the tick
    (nanoseconds since 1970) or None, ``drawn`` the name of the draws that it repeats, where a promise charges draws
    (``pipeline.track_memory``), else 0. It has no capture time, so that it cannot decide when it is emitted.
    """

    __slots__ = ("data", "drawn", "index", "outputs", "slot", "tick_ns")
    data: np.ndarray
    drawn: int
    index: int
    outputs: Mapping[str, np.ndarray]
    slot: int
    tick_ns: Optional[int]

    def __init__(
        self,
        index: int,
        outputs: Mapping[str, np.ndarray],
        maker: Any = None,
        slot: int = 0,
        tick_ns: Optional[int] = None,
        *,
        drawn: int = 0,
    ) -> None:
        if maker is not _PIPELINE:
            raise PrivacyStop("only a pipeline can make a PerturbedFrame: give it a RawFrame")
        # An array over bytes is a copy of its own and can never be made writable again.
        own = {n: np.frombuffer(v.tobytes(), v.dtype).reshape(v.shape) for n, v in outputs.items()}
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "outputs", types.MappingProxyType(own))
        object.__setattr__(self, "data", own[next(iter(own))])
        object.__setattr__(self, "slot", slot)
        object.__setattr__(self, "tick_ns", tick_ns)
        object.__setattr__(self, "drawn", drawn)

    @classmethod
    def of_rows(
        cls, indices: Sequence[int], outputs: Mapping[str, np.ndarray], maker: Any = None, *, drawn: Sequence[int] = ()
    ) -> "List[PerturbedFrame]":
        """One for each index, of the rows of ``outputs`` (n, ...), which are copied once; ``drawn`` has theirs."""
        if maker is not _PIPELINE:
            raise PrivacyStop("only a pipeline can make a PerturbedFrame: give it a RawFrame")
        own = {n: np.frombuffer(v.tobytes(), v.dtype).reshape(v.shape) for n, v in outputs.items()}
        main, frames = next(iter(own)), []
        for row, (index, name_of_draws) in enumerate(zip(indices, list(drawn) or [0] * len(indices))):
            frame = object.__new__(cls)
            values = {name: value[row, ...] for name, value in own.items()}
            _set(frame, "index", index)
            _set(frame, "outputs", types.MappingProxyType(values))
            _set(frame, "data", values[main])
            _set(frame, "slot", 0)
            _set(frame, "tick_ns", None)
            _set(frame, "drawn", name_of_draws)
            frames.append(frame)
        return frames

    def at(self, index: int, tick_ns: Optional[int], slot: Optional[int] = None) -> "PerturbedFrame":
        """The same outputs for the tick with this number and time, or for another slot."""
        moved = object.__new__(PerturbedFrame)
        slot = self.slot if slot is None else slot
        values = {"index": index, "outputs": self.outputs, "data": self.data, "slot": slot, "tick_ns": tick_ns}
        values["drawn"] = self.drawn
        for name, value in values.items():
            object.__setattr__(moved, name, value)
        return moved

    def labels_of(self, labels: Sequence[str], rest: "PerturbedFrame") -> "PerturbedFrame":
        """This frame's outputs called ``labels``; every other is that of ``rest``, of the same pipeline."""
        mixed = self.at(self.index, self.tick_ns)
        own = {name: self.outputs[name] if name in labels else value for name, value in rest.outputs.items()}
        object.__setattr__(mixed, "outputs", types.MappingProxyType(own))
        object.__setattr__(mixed, "data", own[next(iter(own))])
        return mixed

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise PrivacyStop("a PerturbedFrame cannot be changed: only a pipeline fills one")

    def __repr__(self) -> str:
        shapes = ", ".join("{} {} {}".format(n, v.dtype, v.shape) for n, v in self.outputs.items())
        return "<PerturbedFrame {}: {}>".format(self.index, shapes)
