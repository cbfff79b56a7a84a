"""A codebook: an encoder predicts a class and one of its codes, a channel may change the code, a picture of it is sent.

Theorem 1's A* (paper 001) made finite. What is sent is a function of c' and fresh noise. So by data processing it
carries no more information about x than c' does, and that is counted (edgeveil.trainer.measures.certificate).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets.base import Dataset, Part
from edgeveil.trainer.datasets.slicing import fit_and_validation, hold_out, sample, sampled
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.measures.enough import RATE
from edgeveil.trainer.measures.intervals import unit_numbers
from edgeveil.trainer.networks.training import train_labels
from edgeveil.trainer.perturbers.base import Goal
from edgeveil.trainer.perturbers.codebook import (
    MOST_DESIGNED,
    Codebook,
    channel,
    funnel,
    private_fit,
    stream_codes,
    synthesis,
    training,
)
from edgeveil.trainer.perturbers.codebook.funnel import Values, fit_kept
from edgeveil.trainer.perturbers.codebook.stream_codes import (
    class_stages,
    code_stage,
    draw_stage,
    first_stage,
    in_bouts,
    integers,
    keep_stage,
    majority,
    pictured,
)
from edgeveil.trainer.progress import Steps, progress, say
from edgeveil.trainer.recipe.training_sections import Budget
from edgeveil.trainer.runs.fitted import FittedPerturber
from edgeveil.trainer.runs.run import Log

# The accuracy of y-hat on people outside the training data; the limit is on the worst of them.
#
# Errors about a person outside the training data are characteristic of that person and repeat: on streams of unseen
# people they are the leak. So the encoder is trained once without each person and measured on that person.


FEWEST_PEOPLE = 3
UNSEEN = 2  # slices that no training sees, for one that codes are learned from
LEARNED, LEARNED_BYTES = 60_000, 256 * 2**20  # rows of a slice, and bytes as float32, of samples that stay on disk


def leave_one_out(dataset: Dataset, part: Part, without: Callable[[Part], Any], votes: int | None) -> dict[str, Any]:
    """Accuracy of y-hat on each person of ``part`` by an encoder trained without them: worst, mean, and each.

    People are the data set's subjects or, without any, the classes of z. ``without`` trains on rows and returns a
    function from raw samples to labels. With ``votes``, the label of each track (session) is the majority of so many
    first rows, and each track counts once. Raises ``BadInput`` for fewer than three people.
    """
    subjects = dataset.cluster if dataset.cluster_kind == "subject" else None
    who = (dataset.z if subjects is None else subjects)[part.index]
    if len(np.unique(who)) < FEWEST_PEOPLE:
        raise BadInput(
            f"`limits.unseen_accuracy` leaves out one person at a time and needs at least {FEWEST_PEOPLE} of them; "
            f"the training rows are of {len(np.unique(who))}. Add people, or leave that limit out."
        )
    shares = []
    for one in np.unique(who):
        label_of = without(part.take(np.flatnonzero(who != one)))
        left = part.take(np.flatnonzero(who == one)[np.argsort(part.index[who == one])])
        label, truth = label_of(left.x), left.y
        if votes is not None and left.cluster is not None:
            first = np.unique(left.cluster, return_index=True)[1]
            label, truth = majority(label, left.cluster, votes)[first], truth[first]
        shares.append(float((label == truth).mean()))
    return {"people": len(shares), "worst": min(shares), "mean": float(np.mean(shares)), "each": sorted(shares)}


def fit(
    section: Codebook, dataset: Dataset, *, goal: Goal, rng: np.random.Generator, budget: Budget, log: Log
) -> FittedPerturber:
    """Train encoder and codes, compute the channel and the pictures, as the recipe's ``[perturber]`` asks.

    The trunk learns from the first slice and is frozen; the codes learn from the second, where the trunk behaves as on
    new samples. ``budget.epochs`` are those of the trunk. Raises ``BadInput`` and ``LimitNotMet`` (diverged).
    """
    import keras

    from edgeveil.models import encoders

    check(section, dataset)
    whole, dataset = dataset, sample(dataset, LEARNED, LEARNED_BYTES // section.copies)
    if dataset is not whole:
        said = sampled(dataset, whole)
        say(f"A codebook is learned in memory, from some rows of each slice: {said}.")
        log.record(learned_from=said)
    keras.utils.set_random_seed(int(rng.integers(2**32)))
    if goal.private is not None:
        learned = private_fit.learn(dataset.as_priced(), section, goal.private, rng=rng, log=log)
        fitted = assemble(dataset, learned.encoder, learned.pictures, section)
        return replace(fitted, training=learned.training)
    first, _ = fit_and_validation(dataset, "classifiers")
    second, _ = fit_and_validation(dataset, "perturber")
    # From here on z is what is priced; the cuts, and whom the gate leaves out, are the same whatever is.
    original, dataset = dataset, dataset.as_priced()
    first, second = dataset.rows(first.index), dataset.rows(second.index)
    with progress("trunk of the codebook", total=budget.epochs) as advance:
        report = _metric(log, "trunk", advance)
        prepared = prepare(dataset, first, section, rng, budget, report=report)
    if goal.limits.unseen_accuracy is not None:
        people = original.rows(np.concatenate([first.index, second.index]))
        _gate(original, people, section, rng, budget, log)
    labels = None
    if dataset.input.kind == "series" and goal.limits.unseen_accuracy is None:  # the gate tries the trunk's own
        labels = train_labels(dataset, goal.classifiers, budget, seed=int(rng.integers(2**31)), log=log)
    stream = stream_codes.stream(section.hold, section.acknowledge)
    if stream is not None and section.held and not section.follows:
        u, trunk = dataset.unit(second.x), prepared.trunk
        encoder = encoders.encoder(trunk.below, trunk.label)
        encoder = encoder if labels is None else encoders.with_labels(encoder, labels)
        return _held(dataset, encoder, prepared.kept(u, second.index), u, second, section, stream, rng)
    reports = 1 if section.method == "residual" else funnel.reports(section.steps)
    reports += section.pufferfish is not None
    with progress("codes and their pictures", total=reports + 1) as advance:
        report = _metric(log, "codes", advance)
        fitted = finish(prepared, dataset, second, section, rng=rng, labels=labels, report=report, error=goal.error)
        advance()
    return fitted


def check(section: Codebook, dataset: Dataset) -> None:
    """Raise ``BadInput`` where the data have not what is to be kept, or no pictures for every code: no consent, or too
    few people of a class."""
    for name in section.keep:
        funnel.source(name, dataset.unit(dataset.x[:1]), dataset.attributes)
    if section.pufferfish is not None:
        _check_designed(section, dataset.as_priced())
    if section.synthesis == "donor":
        synthesis.check_consent(dataset.consent, public=section.public_data)
    if section.synthesis == "centroid" and dataset.units is None:  # under [private] noise does what the count is for
        names = dataset.y_names
        parts = [fit_and_validation(dataset, "perturber")[0]]
        if not section.held or section.follows:
            parts.append(fit_and_validation(dataset, "classifiers")[0])
        part = dataset.rows(np.concatenate([one.index for one in parts]))
        subject = part.cluster if dataset.cluster_kind == "subject" else None
        people = synthesis.fewest_people(part.y, subject, classes=len(names))
        synthesis.check_people(people, names, fewest=section.fewest_subjects)


def _check_designed(section: Codebook, dataset: Dataset) -> None:
    """Raise ``BadInput`` where there are too many codes, or a pair of y and z has too few rows to count a law on."""
    if len(dataset.y_names) * section.codes > MOST_DESIGNED:
        raise BadInput(
            f"`perturber.pufferfish` takes at most {MOST_DESIGNED:,} codes of all classes: set fewer `perturber.codes`."
        )
    second, _ = fit_and_validation(dataset, "perturber")
    _, apart = split(second, second, copied=section.copies > 1 and section.method == "funnel", seed=dataset.seed)
    pairs, rows = np.unique(np.stack([apart.y, apart.z]), axis=1, return_counts=True)
    if (least := rows.min()) < RATE * section.codes:
        y, z = pairs[:, rows.argmin()]
        raise BadInput(
            "`perturber.pufferfish` counts the codes of each y and z on rows that no code was learned from: "
            f'"{dataset.y_names[y]}" with "{dataset.z_names[z]}" has {least} of them, and {section.codes} codes need '
            f"{RATE * section.codes}, {RATE} each. Set fewer `perturber.codes`, hide a coarser z, or add rows."
        )


@dataclass(frozen=True)
class Prepared:
    """A trunk and T, fitted on the rows ``first``. Several settings of codes can start from the same one."""

    trunk: training.Trunk
    kept: Values
    first: Part


def prepare(
    dataset: Dataset,
    first: Part,
    section: Codebook,
    rng: np.random.Generator,
    budget: Budget,
    *,
    report: training.Report = lambda *_: None,
) -> Prepared:
    """Fit T and train a trunk on the rows ``first``."""
    u = dataset.unit(first.x)
    retained = fit_kept(section.keep, u, first.index, y=first.y, attributes=dataset.attributes, weights=section.weights)
    copies, of = training.augmented(u, section, rng)
    trunk = training.trunk(
        dataset.input,
        funnel.Rows(copies, retained(copies, first.index[of]), first.y[of], first.z[of]),
        section,
        classes=len(dataset.y_names),
        epochs=budget.epochs,
        batch=budget.batch,
        report=report,
    )
    return Prepared(trunk, retained, first)


def finish(
    prepared: Prepared,
    dataset: Dataset,
    second: Part,
    section: Codebook,
    *,
    rng: np.random.Generator,
    labels: Any = None,
    report: training.Report = lambda *_: None,
    error: float = 0.05,
) -> FittedPerturber:
    """Learn codes on the rows ``second``, or on both slices where there are copies, and make the pictures.

    ``prepared`` is not changed. ``labels`` is a classifier that takes the place of the trunk's own. ``error`` is that
    of the certificate for which a channel is designed. Raises ``LimitNotMet`` where there is none.
    """
    from edgeveil.models import encoders

    trunk, retained, first = prepared.trunk, prepared.kept, prepared.first
    both = dataset.rows(np.concatenate([second.index, first.index]))
    # A trunk that learned from changed copies reads its own rows hardly better than new ones.
    copied = section.copies > 1 and section.method == "funnel" and section.hold == "none"
    learned = both if copied else second
    if section.pufferfish is not None:
        learned, apart = split(first, second, copied=copied, seed=dataset.seed)
    u = dataset.unit(learned.x)
    t = retained(u, learned.index)
    classes = len(dataset.y_names), len(dataset.z_names)
    if section.method == "residual":
        u_first = dataset.unit(first.x)
        before = funnel.Rows(u_first, retained(u_first, first.index), first.y, first.z)
        rows = funnel.Rows(u, t, learned.y, learned.z)
        encoder = training.residual_encoder(trunk, before, rows, section, classes=classes, rng=rng, report=report)
    else:
        copies, of = training.augmented(u, section, rng)
        features = predict(trunk.below, copies)
        group = of if section.copies > 1 else None
        rows = funnel.Rows(features, retained(copies, learned.index[of]), learned.y[of], learned.z[of], group)
        head = training.code_head(rows, section, classes=classes, rng=rng, report=report)
        encoder = encoders.encoder(trunk.below, trunk.label, head)
    encoder = encoder if labels is None else encoders.with_labels(encoder, labels)
    # Pictures may be of the first slice too: the more there are, the more they are worth to who learns from x'.
    u = dataset.unit(both.x)
    label, code = funnel.global_codes(*predict(encoder, u))
    _say_unpredicted(label[: len(learned)], dataset.y_names)
    q = None
    if section.pufferfish is not None:
        seen = dataset.unit(apart.x)
        within = funnel.global_codes(*predict(encoder, seen))[1]
        designed = design(dataset, apart, retained(seen, apart.index), within, section, error)
        q = designed.q
        report(section.steps + 1, {"added_distortion": designed.distortion, "codes_sent": float(sum(designed.codes))})
        code = channel.send(code, q, rng)
    pictures = _picture(dataset, code, retained(u, both.index), u, both, encoder, section)
    return assemble(dataset, encoder, pictures, section, q)


def design(
    dataset: Dataset, apart: Part, kept: np.ndarray, code: np.ndarray, section: Codebook, error: float
) -> channel.Design:
    """The channel by the rows ``apart``, their T ``kept`` (n, d) and their codes (n,). Raises ``LimitNotMet``."""
    return channel.design(
        *(kept, apart.y, code, apart.z, unit_numbers(len(apart), apart.cluster)),
        per_class=section.codes,
        epsilon=section.pufferfish or np.inf,
        error=error,
        fresh=UNSEEN * len(dataset.slices.perturber) / len(apart),
    )


def split(first: Part, second: Part, *, copied: bool, seed: int) -> tuple[Part, Part]:
    """The rows that codes are learned from, and those that a channel is counted on, which no code has seen.

    With copies codes are learned from the first slice, else from half of the second.
    """
    if copied:
        return first, second
    one, other = hold_out(second, share=0.5, seed=seed)
    return second.take(one), second.take(other)


def _say_unpredicted(predicted: np.ndarray, names: Sequence[str]) -> None:
    gone = [f'"{name}"' for number, name in enumerate(names) if number not in predicted]
    if gone:
        say(
            f"No sample that codes are learned from is classified as y {', '.join(gone)}, so that is hardly ever sent: "
            "add rows of it, or merge it with another class."
        )


def assemble(
    dataset: Dataset, encoder: Any, pictures: np.ndarray, section: Codebook, q: np.ndarray | None = None
) -> FittedPerturber:
    """The manifest's stages around an encoder and the pictures of every code, with a channel ``q`` (codes, codes)."""
    groups, code = len(dataset.y_names), "code"
    stages, label = [*class_stages(dataset.input, encoder), code_stage(groups, code)], "label"
    if q is not None:
        stages.append(draw_stage(code, "channel", "drawn"))
        code = "drawn"
    stream = stream_codes.stream(section.hold, section.acknowledge)
    if section.follows:
        stages += [first_stage(label, "label_held"), first_stage(code, "code_held")]
        label, code = "label_held", "code_held"
    if in_bouts(stream):
        stages.append(keep_stage(code, "label", "code_held"))
        code = "code_held"
    return pictured(
        dataset.input,
        encoder,
        stages,
        {} if q is None else {"channel": integers(q)},
        pictures,
        label=label,
        code=code,
        codes=groups * section.codes,
        substituted=section.synthesis == "donor",
        stream=stream,
    )


def _gate(
    dataset: Dataset, people: Part, section: Codebook, rng: np.random.Generator, budget: Budget, log: Log
) -> None:
    """Record the accuracy of encoders on people outside their training data."""
    import keras

    def without(part: Part) -> Any:
        trunk = prepare(dataset, part, section, rng, budget).trunk
        model = keras.Model(trunk.below.inputs, trunk.label(trunk.below.output))
        return lambda x: predict(model, dataset.unit(x)).argmax(axis=1)

    held = stream_codes.stream(section.hold)
    votes = held["votes"] if held else None
    log.record(unseen_people=leave_one_out(dataset, people, without, votes))


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
    """A held codebook. Its codes are k-means on T: drawn at random within a class, they need no encoder."""
    rows = funnel.Rows(np.empty((len(part), 0)), kept, part.y, part.z)
    within = funnel.starting_codes(rows, codes=section.codes, n_z=len(dataset.z_names), rng=rng)
    code = part.y * section.codes + within
    share = np.zeros((len(dataset.y_names), len(dataset.y_names) * section.codes))
    np.add.at(share, (part.y, code), 1.0)
    pictures = _picture(dataset, code, kept, u, part, encoder, section)
    donor = section.synthesis == "donor"
    return stream_codes.assemble(dataset.input, encoder, share, pictures, stream, substituted=donor)


def _metric(log: Log, stage: str, advance: Steps) -> training.Report:
    def report(step: int, values: dict[str, float]) -> None:
        log.metric(stage=stage, step=step, **values)
        advance(**values)

    return report


def _picture(
    dataset: Dataset, code: np.ndarray, kept: np.ndarray, u: np.ndarray, part: Part, encoder: Any, section: Codebook
) -> np.ndarray:
    """Unit-cube pictures float32 (codes * copies, *shape), those of a code after each other."""
    per_class = section.codes
    total = len(dataset.y_names) * per_class
    if section.synthesis == "centroid":
        subject = part.cluster if dataset.cluster_kind == "subject" else None
        fewest = section.fewest_subjects
        return synthesis.centroids(
            u, code, kept, part.y, codes=total, per_class=per_class, subject=subject, fewest=fewest
        )

    def read(pictures: np.ndarray) -> np.ndarray:
        out = predict(encoder, pictures)
        # A held codebook's encoder has one output, the class.
        logits = out[encoder.output_names.index("label_logits")] if isinstance(out, (list, tuple)) else out
        raw = np.exp(logits - logits.max(axis=1, keepdims=True))
        return raw / raw.sum(axis=1, keepdims=True)

    sure = read(u)[np.arange(len(code)), part.y]
    allowed = synthesis.check_consent(dataset.consent, public=section.public_data)
    rows = synthesis.donors(
        code,
        kept,
        sure,
        part.z,
        codes=total,
        per_class=per_class,
        copies=section.donors,
        allowed=None if allowed is None else allowed[part.index],
    )
    return u[rows]
