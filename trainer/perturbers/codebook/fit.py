"""A codebook: the encoder says a class and one of its codes, a channel may change the code, and a picture of it leaves.

Theorem 1's A* (paper 001) made finite. What leaves is a function of c' and fresh noise, so by data processing nobody
learns more of x than c' tells, and that is counted (edgeveil.trainer.measures.certificate), not attacked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Dataset, Part
from edgeveil.trainer.datasets.slicing import fit_and_validation
from edgeveil.trainer.perturbers.base import Goal
from edgeveil.trainer.perturbers.codebook import (
    channel,
    decoder,
    funnel,
    stream_codes,
    synthesis,
    training,
    unseen_people_gate,
)
from edgeveil.trainer.perturbers.codebook.targets import Kept, fit_kept
from edgeveil.trainer.progress import Advance, progress
from edgeveil.trainer.recipe.perturber import Codebook
from edgeveil.trainer.recipe.schema import Budget
from edgeveil.trainer.runs.fitted import FittedPerturber, frame_output, output_stage, preprocess_stage
from edgeveil.trainer.runs.log import Log
from edgeveil.trainer.runs.prediction import predict

Functions = dict[str, Callable[[np.ndarray], np.ndarray]]


def fit(
    section: Codebook,
    dataset: Dataset,
    *,
    goal: Goal,
    rng: np.random.Generator,
    budget: Budget,
    log: Log,
    functions: Functions | None = None,
) -> FittedPerturber:
    """Train encoder and codes, find the channel and draw the codes, as the recipe's ``[perturber]`` says.

    The trunk learns from the first slice and is frozen, the codes from the second, where the trunk behaves as on
    readings it never saw. ``budget`` is the recipe's (epochs of the trunk). ``functions`` are a user's own properties
    for ``keep``: unit-cube readings (n, ...) to (n,) or (n, d). Raises ``BadInput`` and ``LimitNotMet`` (diverged).
    """
    import keras

    from edgeveil.models import encoders

    if section.synthesis == "donor":
        _consent(dataset, section)  # before the slow part
    keras.utils.set_random_seed(int(rng.integers(2**32)))
    first, _ = fit_and_validation(dataset, "classifiers")
    second, _ = fit_and_validation(dataset, "perturber")
    with progress("trunk of the codebook", total=budget.epochs) as advance:
        report = _metric(log, "trunk", advance)
        prepared = prepare(dataset, first, section, functions, rng, budget, report=report)
    if goal.limits.unseen_accuracy is not None:
        people = dataset.rows(np.concatenate([first.index, second.index]))
        _gate(dataset, people, section, functions, rng, budget, log)
    stream = stream_codes.stream(section.hold, section.acknowledge)
    if stream is not None and stream["hold"] != "frame":
        u, trunk = dataset.unit(second.x), prepared.trunk
        encoder = encoders.encoder(trunk.below, trunk.label)
        return _held(dataset, encoder, prepared.kept(u, second.index), u, second, section, stream, rng)
    reports = 1 if section.method == "residual" else funnel.reports(section.steps)
    with progress("codes and their pictures", total=reports + 1) as advance:
        fitted = finish(prepared, dataset, second, section, rng=rng, report=_metric(log, "codes", advance))
        advance()
    return fitted


@dataclass(frozen=True)
class Prepared:
    """A trunk and T, fitted on the rows ``first``: several settings of codes can start from the same one."""

    trunk: training.Trunk
    kept: Kept
    first: Part


def prepare(
    dataset: Dataset,
    first: Part,
    section: Codebook,
    functions: Functions | None,
    rng: np.random.Generator,
    budget: Budget,
    *,
    report: training.Report = lambda *_: None,
) -> Prepared:
    """Fit T and train a trunk on the rows ``first``."""
    rows, kept = _rows(dataset, first, section, functions, rng)
    length = {"epochs": budget.epochs, "batch": budget.batch}
    trunk = training.trunk(dataset.input, rows, section, classes=len(dataset.y_names), report=report, **length)
    return Prepared(trunk, kept, first)


def finish(
    prepared: Prepared,
    dataset: Dataset,
    second: Part,
    section: Codebook,
    *,
    rng: np.random.Generator,
    report: training.Report = lambda *_: None,
) -> FittedPerturber:
    """Learn codes on the rows ``second``, find the channel, draw the codes. ``prepared`` stays as it is."""
    from edgeveil.models import encoders

    trunk, kept, first = prepared.trunk, prepared.kept, prepared.first
    u = dataset.unit(second.x)
    t = kept(u, second.index)
    classes = len(dataset.y_names), len(dataset.z_names)
    if section.method == "residual":
        u_first = dataset.unit(first.x)
        before = funnel.Rows(u_first, kept(u_first, first.index), first.y, first.z)
        rows = funnel.Rows(u, t, second.y, second.z)
        encoder = training.residual_encoder(trunk, before, rows, section, classes=classes, rng=rng, report=report)
    else:
        copies, of = training.augmented(u, section, rng)
        features = predict(trunk.below, copies)
        group = of if section.copies > 1 else None
        rows = funnel.Rows(features, kept(copies, second.index[of]), second.y[of], second.z[of], group)
        head = training.code_head(rows, section, classes=classes, rng=rng, report=report)
        encoder = encoders.encoder(trunk.below, trunk.label, head)
    logits = dict(zip(encoder.output_names, predict(encoder, u), strict=True))
    _, code = funnel.global_codes(logits["label_logits"], logits["code_logits"])
    table = channel_table(code, second.z, t, section, y_names=dataset.y_names, z_classes=len(dataset.z_names))
    pictures = _picture(dataset, code, t, u, second, encoder, section, rng)
    return assemble(dataset, encoder, table, pictures, section)


def assemble(
    dataset: Dataset, encoder: Any, table: np.ndarray | None, pictures: np.ndarray, section: Codebook
) -> FittedPerturber:
    """The manifest's stages around an encoder, a channel ``table`` (None: c' = c) and the pictures of every code."""
    groups = len(dataset.y_names)
    total = groups * section.codes
    copies = len(pictures) // total
    tensor = encoder.inputs[0].name
    stages = [
        preprocess_stage(dataset.input),
        {
            "stage": "artefact",
            "model": "encoder",
            "inputs": {tensor: "u"},
            "outputs": {"label_logits": "label_logits", "code_logits": "code_logits"},
        },
        {"stage": "table", "op": "argmax", "input": "label_logits", "output": "label"},
        {
            "stage": "table",
            "op": "argmax_within",
            "input": "code_logits",
            "group": "label",
            "groups": groups,
            "output": "code",
        },
    ]
    tables, last = {"pictures": pictures.astype(np.float32)}, "code"
    if table is not None:
        tables["channel"], last = table, "code_out"
        stages.append({"stage": "draw", "distribution": "channel", "input": "code", "table": "channel", "output": last})
    released = last
    if copies > 1:
        tables["donors"] = channel.donors_within(total, copies)
        draw = {"stage": "draw", "distribution": "channel", "input": last, "table": "donors", "output": "donor"}
        stages, last = [*stages, draw], "donor"
    stages += [
        {"stage": "synthesis", "op": "row", "input": last, "table": "pictures", "output": "v"},
        output_stage(dataset.input),
    ]
    whole = {"shape": [], "dtype": "int64"}
    return FittedPerturber(
        kind="codebook",
        input=dataset.input,
        stages=tuple(stages),
        outputs=(
            frame_output(dataset.input),
            {"name": "label", "kind": "label", "tensor": "label", **whole},
            {"name": "code", "kind": "code", "tensor": released, **whole},
        ),
        models={"encoder": encoder},
        tables=tables,
        substituted=section.synthesis == "donor",
        stream=stream_codes.stream(section.hold, section.acknowledge),
    )


def _rows(
    dataset: Dataset, part: Part, section: Codebook, functions: Functions | None, rng: np.random.Generator
) -> tuple[funnel.Rows, Kept]:
    """Unit-cube readings of some rows with their copies, and T fitted on them."""
    u = dataset.unit(part.x)
    kept = fit_kept(section.keep, u, part.index, y=part.y, attributes=dataset.attributes, functions=functions)
    copies, of = training.augmented(u, section, rng)
    return funnel.Rows(copies, kept(copies, part.index[of]), part.y[of], part.z[of]), kept


def _gate(
    dataset: Dataset,
    people: Part,
    section: Codebook,
    functions: Functions | None,
    rng: np.random.Generator,
    budget: Budget,
    log: Log,
) -> None:
    """Measure encoders on people whom they never saw, and record the accuracies."""
    import keras

    held = stream_codes.stream(section.hold)

    def without(part: Part) -> Any:
        trunk = prepare(dataset, part, section, functions, rng, budget).trunk
        model = keras.Model(trunk.below.inputs, trunk.label(trunk.below.output))
        return lambda x: predict(model, dataset.unit(x)).argmax(axis=1)

    votes = held["votes"] if held else None
    log.record(unseen_people=unseen_people_gate.leave_one_out(dataset, people, without, votes))


def _held(
    dataset: Dataset,
    encoder: Any,
    kept: np.ndarray,
    u: np.ndarray,
    part: Part,
    section: Codebook,
    stream: Mapping[str, Any],
    rng: np.random.Generator,
) -> FittedPerturber:
    """Codes are k-means on T: they only say which of a few pictures of a class is drawn, so nobody has to read them."""
    rows = funnel.Rows(np.empty((len(part), 0)), kept, part.y, part.z)
    within = funnel.starting_codes(rows, codes=section.codes, n_z=len(dataset.z_names), rng=rng)
    code = part.y * section.codes + within
    share = np.zeros((len(dataset.y_names), len(dataset.y_names) * section.codes))
    np.add.at(share, (part.y, code), 1.0)
    pictures = _picture(dataset, code, kept, u, part, encoder, section, rng)
    donor = section.synthesis == "donor"
    return stream_codes.assemble(dataset.input, encoder, share, pictures, stream, substituted=donor)


def _metric(log: Log, stage: str, advance: Advance) -> training.Report:
    def report(step: int, values: dict[str, float]) -> None:
        log.metric(stage=stage, step=step, **values)
        advance(**values)

    return report


def channel_table(
    code: np.ndarray, z: np.ndarray, kept: np.ndarray, section: Codebook, *, y_names: Sequence[str], z_classes: int
) -> np.ndarray | None:
    """The shipped integers (codes, codes), or None for c' = c; each class by the rows that were taken for it.

    ``code`` and ``z`` (n,), ``kept`` (n, d) is T. Raises ``BadInput`` for a class that no row is taken for.
    """
    if section.channel == "none":
        return None
    k, groups = section.codes, len(y_names)
    counts = np.zeros((groups * k, z_classes))
    np.add.at(counts, (code, z), 1.0)
    means = np.zeros((groups * k, kept.shape[1]))
    np.add.at(means, code, kept)
    means /= np.maximum(counts.sum(axis=1), 1)[:, None]
    parts = []
    for group in range(groups):
        mine = slice(group * k, (group + 1) * k)
        if not counts[mine].any():
            raise BadInput(f'No reading is taken for y "{y_names[group]}", so its channel has nothing to count.')
        if section.channel == "independent":
            parts.append(channel.independent(counts[mine].sum(axis=1)))
        else:
            distance = ((means[mine, None] - means[None, mine]) ** 2).sum(axis=2)
            parts.append(channel.least_noise(counts[mine], distance, bound=section.bound))
    return channel.integers(channel.blocks(parts))


def _picture(
    dataset: Dataset,
    code: np.ndarray,
    kept: np.ndarray,
    u: np.ndarray,
    part: Part,
    encoder: Any,
    section: Codebook,
    rng: np.random.Generator,
) -> np.ndarray:
    """Unit-cube pictures float32 (codes * copies, *shape), those of a code after each other."""
    total = len(dataset.y_names) * section.codes
    if section.synthesis == "centroid":
        subject = part.cluster if dataset.cluster_kind == "subject" else None
        fewest = section.fewest_subjects
        return synthesis.centroids(u, code, kept, codes=total, per_class=section.codes, subject=subject, fewest=fewest)

    def read(pictures: np.ndarray) -> np.ndarray:
        out = predict(encoder, pictures)
        # A held codebook's encoder says the class alone.
        logits = out[encoder.output_names.index("label_logits")] if isinstance(out, (list, tuple)) else out
        raw = np.exp(logits - logits.max(axis=1, keepdims=True))
        return raw / raw.sum(axis=1, keepdims=True)

    if section.synthesis == "decoder":
        binary = np.dtype(dataset.input.dtype).kind in "iu" and float(dataset.input.span.max()) == 1.0
        settings = decoder.DecoderSettings(section.donors, section.decoder_steps, section.latent, binary)
        return decoder.pictures(
            u, code, kept, codes=total, per_class=section.codes, settings=settings, read=read, rng=rng
        )
    sure = read(u)[np.arange(len(code)), part.y]
    allowed = _consent(dataset, section)
    rows = synthesis.donors(
        code,
        kept,
        sure,
        codes=total,
        per_class=section.codes,
        copies=section.donors,
        allowed=None if allowed is None else allowed[part.index],
    )
    return u[rows]


def _consent(dataset: Dataset, section: Codebook) -> np.ndarray | None:
    return synthesis.check_consent(dataset.consent, public=section.public_data)
