"""Where an epsilon is promised, each valid reading gets a report and is paid for, whatever it makes the network do."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from edgeveil.edge_runtime.errors import FrameDropped, Stalled
from edgeveil.edge_runtime.ext.ledger import book as ledger_file
from edgeveil.edge_runtime.ext.ledger.allowance import Payer
from edgeveil.edge_runtime.frames import RawFrame
from edgeveil.edge_runtime.manifest.manifest import parse
from edgeveil.edge_runtime.pipeline import batch
from edgeveil.edge_runtime.pipeline.perturber import Perturber
from edgeveil.edge_runtime.pipeline.pipeline import Pipeline
from edgeveil.edge_runtime.sources import series
from edgeveil.edge_runtime.sources.base import Camera, Freshness, Source
from tests.support import bundles
from tests.support.checkout import ROOT
from tests.support.promised import counted_bundles, held_examples, local_examples

D, N = 4, 24
SECRET = 16  # the first value of the readings that fail


class Failing:
    """A model (n, D) to itself that fails in one way where a reading's first value is ``SECRET``."""

    def __init__(self, how):
        self.how = how

    def run(self, inputs):
        u = np.array(inputs["u"], np.float32)
        if not (u[:, 0] == 1).any():
            return {"s": u}
        return {"s": self.how(u)}

    def close(self):
        pass


def raising(error):
    def how(_u):
        raise error

    return how


# Each way in which a valid reading can fail; the words are those that FrameDropped is raised with.
WAYS = {
    "backend": raising(FrameDropped("backend")),
    "output-shape": raising(FrameDropped("output-shape")),
    "output-dtype": raising(FrameDropped("output-dtype")),
    "error": raising(MemoryError()),
    "shape": lambda u: np.concatenate([u, u]),
    "another shape": lambda u: u[:, :2],
    "no values": lambda u: u[:, :0],
    "text": lambda u: u.astype("S4"),
    "no array": lambda _u: None,
    "not-finite": lambda u: u * np.nan,
    "code-range": raising(FrameDropped("code-range")),
    "dtype": raising(FrameDropped("dtype")),
}
# Reasons of sources alone: there never was a reading.
NO_READING = {"unreadable", "busy", series.GAP, series.LATE, series.BACK}
# Of what a reading shows: for a promise no source asks (``Source.total``), and its report comes as any other's.
NOT_ASKED = {series.SATURATED, series.STUCK}
# Where a reason is passed on: it was raised with one of those.
PASSED_ON = {"in_flight.reason", "result", "reason if reason in _REASONS else 'unreadable'"}


def test_every_reason_of_the_product_is_one_of_these():
    literals, passed_on = set(), set()
    for path in (ROOT / "edge_runtime").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "FrameDropped":
                if isinstance(node.args[0], ast.Constant):
                    literals.add(node.args[0].value)
                else:
                    passed_on.add(ast.unparse(node.args[0]))
    assert {"backend", "output-shape", "not-finite"} <= literals
    assert literals <= set(WAYS) | NO_READING
    assert passed_on == PASSED_ON
    assert reasons_of_windows() == NO_READING - {"unreadable", "busy"} | NOT_ASKED


def reasons_of_windows():
    """The reasons for which a window may be dropped."""
    texts = {name: value for name, value in vars(series).items() if name.isupper() and type(value) is str}
    return {value for name, value in texts.items() if name != "UNREADABLE"}


class Still(Camera):
    """A covered lens: the same picture again and again."""

    def __init__(self):
        super().__init__("still", {"shape": [4, 4, 1]})
        self.freshness = Freshness("still", 0.0)

    def _read(self):
        return np.zeros((4, 4, 1), np.uint8)


def test_a_picture_that_stands_still_is_a_reading_as_any_other_of_a_promise():
    camera = Still()
    camera.next()
    with pytest.raises(Stalled, match="frozen"):
        camera.next()
    camera.total = True
    assert [camera.next().index for _ in range(3)] == [2, 3, 4]


def failing(op, how, *, stream=None):
    """A bundle's pipeline with a model before its mechanism, ready, and a model that fails from now on."""
    parts, tables = held_examples.parts(op, stream) if stream else local_examples.document(op, 1.0, D)
    at = next(n for n, stage in enumerate(parts["stages"]) if stage["stage"] == "preprocess") + 1
    model = {"stage": "artefact", "model": "m", "inputs": {"u": "u"}, "outputs": {"s": "s"}}
    for stage in parts["stages"]:
        if stage.get("input") == "u":
            stage["input"] = "s"
    parts["stages"].insert(at, model)
    runner = Failing(lambda u: u)
    pipeline = Pipeline(parse(parts), tables=tables, runners={"m": runner})
    x = np.full((1, D), 3, np.uint8)
    pipeline.prepare(x, local_examples.recorded(parts["stages"], 1))
    runner.how = how
    return pipeline


def readings(fails):
    """N readings of the same draws of a generator; ``fails`` says which begin with the secret."""
    x = np.random.default_rng(4).integers(0, SECRET, (N, D)).astype(np.uint8)
    x[fails, 0] = SECRET
    return [RawFrame(row, number, track=number) for number, row in enumerate(x)]


HALVES = np.arange(N) % 2 == 0


@pytest.mark.parametrize("op", local_examples.OPS)
@pytest.mark.parametrize("way", list(WAYS))
def test_a_reading_that_fails_gets_a_report_as_any_other(op, way):
    pipeline = failing(op, WAYS[way])
    together = pipeline.perturb_batch(readings(HALVES))
    alone = [pipeline.perturb(frame) for frame in readings(HALVES)]
    shape = together[1].data.shape  # of a reading that does not fail
    for made in (together, alone):
        assert [frame.index for frame in made] == list(range(N))
        assert {(frame.data.shape, frame.data.dtype) for frame in made} == {(shape, together[1].data.dtype)}
    assert sum(pipeline.answered.values()) in (0, N)  # NaN of a model counts as 0, as it always did


def test_the_report_of_a_failure_has_the_law_of_the_mechanism():
    """Index 0, by k-ary randomised response: its own share, and each other category at its own."""
    pipeline = failing("k-rr", WAYS["backend"])
    frames = [frame for frame in readings(np.ones(N, bool)) for _ in range(150)]
    codes = np.array([int(frame.data) for frame in pipeline.perturb_batch(frames)])
    wanted = local_examples.channel(D, 1.0)[0] / 2**32
    counts = np.bincount(codes, minlength=D)
    # 3,600 draws: 5 standard deviations.
    assert (np.abs(counts - len(frames) * wanted) < 5 * np.sqrt(len(frames) * wanted * (1 - wanted))).all()


def test_a_nan_in_a_reading_is_answered_too():
    parts, tables = local_examples.document("duchi-linf", 1.0, D)
    parts["input"]["dtype"] = "float32"
    made = local_examples.pipeline(parts, tables)
    made.prepare(np.full((1, D), 3, np.float32), local_examples.recorded(parts["stages"], 1))
    frames = [RawFrame(np.array([0.5, np.nan if n % 2 else 0.5, 1.0, 0.0], np.float32), n) for n in range(10)]
    assert [frame.index for frame in made.perturb_batch(frames)] == list(range(10))
    assert made.answered == {"not-finite": 5}


def test_what_has_not_the_inputs_shape_or_type_is_no_reading():
    pipeline = failing("k-rr", WAYS["backend"])
    given = [RawFrame(np.zeros(9, np.uint8), 0), RawFrame(np.zeros(D, np.float32), 1)]
    assert pipeline.perturb_batch(given) == ["shape", "dtype"]
    for frame, reason in zip(given, ["shape", "dtype"], strict=True):
        with pytest.raises(FrameDropped, match=reason):
            pipeline.perturb(frame)
    assert not pipeline.answered


@pytest.mark.parametrize("stream", ["track", "period"])
def test_of_a_stream_a_failure_is_charged_once_for_each_draw(stream):
    names = []
    for how in (WAYS["backend"], lambda u: u):
        pipeline = failing("oue", how, stream=stream)
        names.append(
            [pipeline.perturb(RawFrame(one._data, n, track=n // 6)).drawn for n, one in enumerate(readings(HALVES))]
        )
    fail, well = ([made.index(name) for name in made] for made in names)
    assert fail == well  # new draws at the same frames
    assert 0 not in names[0]


class Lines(Source):
    size = None

    def __init__(self, frames):
        self.frames = frames

    def next(self):
        return self.frames.pop(0) if self.frames else None


class Blocks(Lines):
    blocks = True

    def next_block(self):
        given, self.frames = self.frames[:7], self.frames[7:]
        return given or None

    def refused(self):
        return []


@pytest.mark.parametrize("source", [Lines, Blocks])
@pytest.mark.parametrize("way", list(WAYS))
def test_number_and_charges_of_a_file_are_those_of_readings_that_do_not_fail(tmp_path, source, way, monkeypatch):
    made = bundles.make_bundle(tmp_path, example=local_examples.example("k-rr", 1.0, D))
    found = []
    for name, fails in (("some", HALVES), ("none", np.zeros(N, bool))):
        book = tmp_path / name
        ledger_file.create(str(book))
        with Perturber.open(made.path, trust=made.trust) as perturber:
            monkeypatch.setattr(perturber, "pipeline", failing("k-rr", WAYS[way]))
            out = []
            pay = Payer(ledger_file.Ledger(str(book)), counted_bundles.price(1), by_subject=True).pay
            summary = batch.perturb_all(source(readings(fails)), perturber, out.append, pay=pay)
        accounts = ledger_file.Ledger(str(book)).book().accounts
        found.append(([frame.index for frame in out], summary.frames_out, summary.dropped, len(accounts)))
    assert found[0] == found[1]
    assert found[0][1:] == (N, {}, N)
