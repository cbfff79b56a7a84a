"""Which round of a training the inside is asked to report in: one report of this device to each round.

A round comes from the collector, is checked and, where it is this device's turn, goes to the inside. What comes back
leaves only if it is of that round and paid for. Where the ledger knows that a subject's budget is spent, nothing left:
the inside is asked again, and takes the next line.
"""

from typing import Any, Callable, List, Optional

from edgeveil.edge_runtime.config import Settings
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.ipc.counters import Counters
from edgeveil.edge_runtime.ipc.rounds import Round, RoundFormat, RoundRefused
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.edge_runtime.outside.training.gradient_settings import check_gradients


class Training(object):
    """One training, the first that is heard of.

    ``turn`` is this device's number, from 0, or None. ``feed`` has ``handle`` and ``newest``.
    """

    def __init__(
        self, feed: Any, form: RoundFormat, turn: Optional[int], counters: Counters, say: Callable[..., None]
    ) -> None:
        self.feed, self._form, self._turn, self._counters, self._say = feed, form, turn, counters, say
        self._heard: Optional[Round] = None  # the last round, whether this device is asked or not
        self._asked = b""  # the record of the round that is not answered yet
        self._to_ask = False

    def handles(self) -> List[int]:
        """What to wait for."""
        return [self.feed.handle]

    def step(self, offer: Callable[[bytes], bool]) -> None:
        """Hear what is new, and ask. ``offer`` passes a record on to the inside, and says whether that worked; with
        nothing, it moves what is under way."""
        data = self.feed.newest()
        if data:
            self._hear(data)
        if offer(self._asked if self._to_ask else b""):
            self._to_ask = False

    def restarted(self) -> None:
        """Another inside runs: it has not heard of the round that is open."""
        self._to_ask = bool(self._asked)

    def expects(self, question: int) -> bool:
        """Whether a report of this number is that of the open round."""
        return bool(self._asked) and self._heard is not None and self._heard.question == question

    def answered(self) -> None:
        """The open round has its report."""
        self._asked, self._to_ask = b"", False

    def ask_again(self) -> None:
        """The report may not leave, and another line's may."""
        self._to_ask = True

    def _hear(self, data: bytes) -> None:
        try:
            one = self._form.unpack(data)
            if self._heard is not None and one.run != self._heard.run:
                raise RoundRefused("it is of another run: restart this service to take part in that one")
        except RoundRefused as error:
            self._counters.add("fault:round")
            self._say("round-refused", message="a round was published that is none for this device: {}".format(error))
            return
        if self._heard is not None and one.number <= self._heard.number:
            return
        self._heard = one
        self._counters.add("rounds-heard")
        self._asked, self._to_ask = b"", False
        if one.lot < one.devices and (self._turn is None or self._turn >= one.devices):
            self._counters.add("fault:turn")
            problem = "this round asks {} of {} devices in turn: give this one its number below that with --turn"
            self._say("round-refused", message=problem.format(one.lot, one.devices))
        elif one.asks(self._turn):
            self._asked, self._to_ask = data, True


def open_training(
    settings: Settings, manifest: Manifest, counters: Counters, say: Callable[..., None]
) -> Optional[Training]:
    """The training that a verified bundle takes part in, None for one without gradients. Raises ``BadInput``."""
    form = RoundFormat.of(manifest)
    if form is None:
        if settings.model is not None or settings.turn is not None:
            raise BadInput("--model and --turn are for a bundle that reports gradients: leave them out for this one")
        if settings.subject_column is not None:
            raise BadInput(
                "expected --subject-column with files alone: a service counts all that leaves as one unit. Leave it "
                "out, or go from csv: to a file"
            )
        return None
    check_gradients(settings, manifest)
    # Imported here: a service without a training needs no TLS yet.
    from edgeveil.edge_runtime.outside.training.model_feed import ModelFeed

    return Training(ModelFeed(str(settings.model)), form, settings.turn, counters, say)
