"""A release: the encoder says a class and one of its codes, a channel may change the code, and a picture of it leaves.

Theorem 1's A* (paper 001) made finite. What leaves is a function of c' and fresh noise, so by data processing nobody
learns more of x than c' tells, and that is counted (trainer.audit.certificate), not attacked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from edge_runtime.errors import BadInput, LimitNotMet
from trainer.audit.certificate import count, information
from trainer.datasets.base import Dataset, Part
from trainer.perturbers.base import FittedPerturber, frame_output, output_stage, preprocess_stage
from trainer.perturbers.release import channel, codes, residual, synthesis
from trainer.perturbers.release.keep import Kept, fit_kept
from trainer.perturbers.sections import Release
from trainer.run import Run

Functions = dict[str, Callable[[np.ndarray], np.ndarray]]
Report = Callable[..., None]


def fit(
    dataset: Dataset, rng: np.random.Generator, budget: Any, run: Run, *, functions: Functions | None = None
) -> FittedPerturber:
    """Train encoder and codes, find the channel and draw the codes, as the recipe's ``[perturber]`` says.

    The trunk learns from the first slice and is frozen, the codes from the second, where the trunk behaves as on
    readings it never saw. ``budget`` is the recipe's (epochs of the trunk). ``functions`` are a user's own properties
    for ``keep``: unit-cube readings (n, ...) to (n,) or (n, d). Raises ``BadInput`` and ``LimitNotMet`` (diverged).
    """
    import keras

    section = run.recipe.perturber
    if not isinstance(section, Release):
        raise BadInput(f'Expected a recipe whose perturber is "release"; got "{section.kind}".')
    if section.synthesis == "donor":
        _consent(dataset, section)  # before the slow part
    keras.utils.set_random_seed(int(rng.integers(2**32)))
    first, _ = run.hold_out(dataset.part("classifiers"))
    second, _ = run.hold_out(dataset.part("perturber"))
    more: dict[str, Any] = {"epochs": budget.epochs, "batch": run.recipe.budget.batch, "report": run.metric}
    prepared = prepare(dataset, first, section, functions=functions, **more)
    return finish(prepared, dataset, second, section, rng=rng, report=run.metric)


@dataclass(frozen=True)
class Prepared:
    """What all codes of one trunk start from, so that several settings of codes can be compared on the same trunk.

    ``trunk`` and what is on it: ``label`` (a model), ``cells`` (a layer for the pairs (y, z)), ``reads`` (one for T^);
    ``kept`` is T, ``first`` the rows that all of it was trained on.
    """

    trunk: Any
    label: Any
    cells: Any
    reads: Any
    kept: Kept
    first: Part


def prepare(
    dataset: Dataset,
    first: Part,
    section: Release,
    *,
    epochs: int,
    batch: int,
    report: Report,
    functions: Functions | None = None,
) -> Prepared:
    """Fit T and train the trunk on the rows ``first``. ``report`` is told ``stage``, ``step`` and figures."""
    u = dataset.unit(first.x)
    kept = fit_kept(section.keep, u, first.index, y=first.y, attributes=dataset.attributes, functions=functions)
    trained = _trunk(dataset, u, first, kept(u, first.index), section, epochs=epochs, batch=batch, report=report)
    return Prepared(*trained, kept, first)


def finish(
    prepared: Prepared, dataset: Dataset, second: Part, section: Release, *, rng: np.random.Generator, report: Report
) -> FittedPerturber:
    """Learn the codes on the rows ``second``, find the channel, draw the codes. ``prepared`` is left as it is."""
    u = dataset.unit(second.x)
    t = prepared.kept(u, second.index)
    make = _residual if section.method == "residual" else _funnel
    encoder = make(prepared, dataset, second, u, t, section, rng, report)
    logits = dict(zip(encoder.output_names, encoder.predict(u, batch_size=1024, verbose=0), strict=True))
    _, code = codes.global_codes(logits["label_logits"], logits["code_logits"])
    table = _channel(code, second, t, dataset, section)
    return assemble(dataset, encoder, table, _picture(dataset, code, t, u, second, logits, section), section)


def assemble(
    dataset: Dataset, encoder: Any, table: np.ndarray | None, pictures: np.ndarray, section: Release
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
        kind="release",
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
    )


def _trunk(
    dataset: Dataset,
    u: np.ndarray,
    part: Part,
    kept: np.ndarray,
    section: Release,
    *,
    epochs: int,
    batch: int,
    report: Report,
) -> tuple[Any, Any, Any, Any]:
    """Trunk, label head, layers for (y, z) and T: a code can only be kept free of a z that the trunk knows of."""
    import keras

    from models import encoders

    if dataset.input.kind == "image":
        height, width, channels = dataset.input.shape
        trunk = encoders.image_trunk((height, width, channels), width=section.width, features=section.features)
    else:
        trunk = encoders.vector_trunk(dataset.input.shape[0], width=section.width, features=section.features)
    label_head = encoders.label_head(section.features, len(dataset.y_names))
    cell = np.unique(part.y * len(dataset.z_names) + part.z, return_inverse=True)[1].reshape(-1)
    h = trunk.output
    cells, reads = keras.layers.Dense(int(cell.max()) + 1, name="cells"), keras.layers.Dense(kept.shape[1], name="kept")
    model = keras.Model(trunk.inputs, [label_head(h), cells(h), reads(h)])
    batch = min(batch, len(part))
    schedule = keras.optimizers.schedules.CosineDecay(section.learning_rate, epochs * -(-len(part) // batch))
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(
        keras.optimizers.AdamW(schedule, weight_decay=section.weight_decay),
        loss=[entropy, entropy, "mse"],
        # T has unit variance in all, so its mean squared error counts once per dimension.
        loss_weights=[1.0, 1.0, float(kept.shape[1])],
    )

    def record(epoch: int, logs: dict[str, float] | None = None) -> None:
        loss = float((logs or {}).get("loss", np.nan))
        if not np.isfinite(loss):
            raise LimitNotMet(
                f"Training the encoder diverged in epoch {epoch + 1}: its loss is no longer a number. Lower "
                "`perturber.learning_rate` in the recipe and train into another folder."
            )
        report(stage="trunk", step=epoch + 1, loss=loss)

    watch = keras.callbacks.LambdaCallback(on_epoch_end=record)
    model.fit(u, [part.y, cell, kept], batch_size=batch, epochs=epochs, verbose=0, callbacks=[watch])
    return trunk, label_head, cells, reads


def _funnel(
    prepared: Prepared,
    dataset: Dataset,
    part: Part,
    u: np.ndarray,
    kept: np.ndarray,
    section: Release,
    rng: np.random.Generator,
    report: Report,
) -> Any:
    """The encoder whose code head is learned by the funnel (codes.py)."""
    from models import encoders

    head = encoders.code_head(
        section.features, len(dataset.y_names), section.codes, width=section.width_of_head, dropout=section.dropout
    )
    rows = codes.Rows(prepared.trunk.predict(u, batch_size=1024, verbose=0), kept, part.y, part.z)
    settings = codes.FunnelSettings(
        codes=section.codes,
        lam=section.price,
        steps=section.steps,
        batch=section.code_batch or None,
        shrinkage=section.shrinkage,
        weight_decay=section.weight_decay,
    )
    try:
        codes.learn(
            head,
            rows,
            settings,
            classes=(len(dataset.y_names), len(dataset.z_names)),
            rng=rng,
            report=lambda step, values: report(stage="codes", step=step, **values),
        )
    except FloatingPointError:
        raise LimitNotMet(
            "Learning the codes diverged: their loss is no longer a number. Lower `perturber.price` in the recipe and "
            "train into another folder."
        ) from None
    return encoders.encoder(prepared.trunk, prepared.label, head)


def _residual(
    prepared: Prepared,
    dataset: Dataset,
    part: Part,
    u: np.ndarray,
    kept: np.ndarray,
    section: Release,
    rng: np.random.Generator,
    report: Report,
) -> Any:
    """The encoder whose codes are those of what z does not explain (residual.py)."""
    import keras

    from models import encoders

    first = prepared.first
    before = prepared.kept(dataset.unit(first.x), first.index)
    # What is usual of T needs no trunk, so both slices say it; its cells are those of the trunk, which saw the first.
    seen = np.isin(part.y * len(dataset.z_names) + part.z, first.y * len(dataset.z_names) + first.z)
    normal = residual.usual(
        np.concatenate([before, kept[seen]]).astype(np.float64),
        np.concatenate([first.y, part.y[seen]]),
        np.concatenate([first.z, part.z[seen]]),
        shrinkage=section.shrinkage,
    )
    h = prepared.trunk.output
    reader = keras.Model(prepared.trunk.inputs, [keras.layers.Softmax()(prepared.cells(h)), prepared.reads(h)])
    posterior, said = (value.astype(np.float64) for value in reader.predict(u, batch_size=1024, verbose=0))
    scores = residual.learn(
        said,
        posterior,
        part.y,
        part.z,
        normal,
        codes=section.codes,
        classes=len(dataset.y_names),
        price=section.price,
        shrinkage=section.shrinkage,
        rng=rng,
    )
    code = scores(said, posterior).reshape(len(said), -1, section.codes)[np.arange(len(said)), part.y].argmax(axis=1)
    counts = count(part.y, code, part.z, shape=(len(dataset.y_names), section.codes, len(dataset.z_names)))
    report(stage="codes", step=1, bits=information(counts))
    return encoders.residual_encoder(
        prepared.trunk, prepared.label, prepared.cells, prepared.reads, slope=scores.slope, offset=scores.offset
    )


def _channel(code: np.ndarray, part: Part, kept: np.ndarray, dataset: Dataset, section: Release) -> np.ndarray | None:
    """The shipped integers (codes, codes), or None for c' = c; each class by the rows that were taken for it."""
    if section.channel == "none":
        return None
    k, groups = section.codes, len(dataset.y_names)
    counts = np.zeros((groups * k, len(dataset.z_names)))
    np.add.at(counts, (code, part.z), 1.0)
    means = np.zeros((groups * k, kept.shape[1]))
    np.add.at(means, code, kept)
    means /= np.maximum(counts.sum(axis=1), 1)[:, None]
    parts = []
    for group in range(groups):
        mine = slice(group * k, (group + 1) * k)
        if not counts[mine].any():
            raise BadInput(
                f'No reading is taken for y "{dataset.y_names[group]}", so its channel has nothing to count.'
            )
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
    logits: dict[str, np.ndarray],
    section: Release,
) -> np.ndarray:
    """Unit-cube pictures float32 (codes * copies, *shape), those of a code after each other."""
    total = len(dataset.y_names) * section.codes
    if section.synthesis == "centroid":
        subject = part.cluster if dataset.cluster_kind == "subject" else None
        fewest = section.fewest_subjects
        return synthesis.centroids(u, code, kept, codes=total, per_class=section.codes, subject=subject, fewest=fewest)
    raw = logits["label_logits"] - logits["label_logits"].max(axis=1, keepdims=True)
    sure = (np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True))[np.arange(len(code)), part.y]
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


def _consent(dataset: Dataset, section: Release) -> np.ndarray | None:
    return synthesis.check_consent(dataset.attributes.get("consent"), public=section.public_data)
