"""Training D_y and D_z on the first slice, with early stopping on a validation cut of it (section 5.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import binom

from edgeveil.edge_runtime.errors import BadInput, LimitNotMet
from edgeveil.edge_runtime.util.atomic import atomic_path
from edgeveil.models.filters import End, shown
from edgeveil.trainer.datasets.base import Dataset, InputSpec
from edgeveil.trainer.datasets.samples import applied
from edgeveil.trainer.datasets.slicing import few, fit_and_validation
from edgeveil.trainer.graphs import keras_file
from edgeveil.trainer.graphs.prediction import predict
from edgeveil.trainer.interrupts import whole_steps
from edgeveil.trainer.linear import LinearSection, as_float64, condensed, linear_problem, mean_of
from edgeveil.trainer.networks import own
from edgeveil.trainer.networks.base import network
from edgeveil.trainer.networks.feeding import Feed, compiled, descend
from edgeveil.trainer.progress import progress, say
from edgeveil.trainer.recipe.networks import Given, file_of
from edgeveil.trainer.recipe.training_sections import Budget, Classifiers
from edgeveil.trainer.runs.run import Log, Run

# Does D_y read y at all? A perturber that is trained against a dead one costs minutes and keeps nothing.


MARGIN = 0.05  # of what is left above the commonest class, that D_y must read of it
LOOK_POINTS = 0.10  # that it may lie below the look of `recipe new`


def commonest(labels: np.ndarray) -> float:
    """The accuracy of always guessing the commonest class of ``labels`` (n,)."""
    return float(np.bincount(labels).max() / len(labels))


def beats_guessing(accuracy: float, guessing: float) -> bool:
    """Whether an accuracy is above that of always guessing the commonest class, by the margin."""
    return accuracy >= guessing + MARGIN * (1 - guessing)


def unseen_accuracy(dataset: Dataset, model: Any, *, most: int | None = None) -> tuple[float, float]:
    """The accuracy of a classifier of y, and that of guessing, on the (first ``most``) rows of the second slice.

    Of samples that stay on disk, on ``few`` of them.
    """
    part = few(dataset, dataset.part("perturber"))
    part = part.take(np.arange(min(len(part), most or len(part))))
    right = predict(model, dataset.unit(part.x)).argmax(axis=1) == part.y
    return float(right.mean()), commonest(part.y)


def check_reads_y(run: Run, model: Any) -> None:
    """Raise ``LimitNotMet`` where D_y does no better than guessing, or lies far below the recipe's own look.

    It is asked of the second slice, which neither D_y nor the look's forest was trained on. Under the quick budget, and
    for a recipe that does not ask for y in each release, it is only said.
    """
    recipe = run.recipe
    accuracy, guessing = unseen_accuracy(run.dataset().for_training(), model)
    look = recipe.classifiers.look
    far = look is not None and accuracy < look - LOOK_POINTS
    if beats_guessing(accuracy, guessing) and not far:
        return
    seen = "" if look is None else f", and the look of `recipe new` read {look:.1%}"
    another = network(recipe.classifiers.architecture, run.dataset().input).another
    cure = f'take `classifiers.architecture = "{another}"`, more `budget.classifier_epochs` or more rows'
    if recipe.classifiers.target is not None:
        cure = "give another `classifiers.target.trained`, or leave it out"
    smaller = " or, if that is enough for your use, lower `classifiers.look`" if far else ""
    sentence = (
        f"D_y reads y in {accuracy:.1%} of the second slice; always guessing the commonest class is right in "
        f"{guessing:.1%}{seen}."
    )
    if run.facts["budget"] == "quick" or recipe.limits.target_accuracy <= guessing:
        say(sentence)
        return
    raise LimitNotMet(f"{sentence} Training stops before the perturber: in another folder, {cure}{smaller}.")


NAMES = ("target", "sensitive")
NAMED = {"target": "y", "sensitive": "z"}


def build(architecture: str, spec: InputSpec, classes: int, *, width: int | None = None) -> Any:
    """An untrained classifier for samples of ``spec``. Raises ``BadInput`` where the two do not fit."""
    return network(architecture, spec).build(spec, settings=width, classes=classes)


def train_classifiers(run: Run) -> None:
    """Train D_y and D_z unless RUN/classifiers has them; an interrupted training resumes at its last epoch.

    Raises ``LimitNotMet`` once D_y is there and does not read y.
    """
    import keras

    dataset = run.dataset().for_training()
    take_own(run)
    fit, choose = fit_and_validation(dataset, "classifiers")
    of_name = zip(NAMES, (dataset.y_names, dataset.z_names), (fit.y, fit.z), (choose.y, choose.z), strict=True)
    for number, (name, classes, labels, held) in enumerate(of_name):
        if name == "sensitive":
            check_reads_y(run, keras_file.read(classifier_path(run, "target")))
        if classifier_path(run, name).is_file():
            continue
        keras.utils.set_random_seed((run.recipe.seed + number) % 2**32)
        model = build(run.recipe.classifiers.architecture, dataset.input, len(classes))
        with run.stage(f"classifier_{name}"):
            accuracy = train_one(
                model,
                (dataset.unit(fit.x), labels),
                (dataset.unit(choose.x), held),
                settings=run.recipe.classifiers,
                batch=run.recipe.budget.batch,
                epochs=run.recipe.budget.classifier_epochs,
                seed=run.recipe.seed,
                log=run,
                stage=name,
            )
        save_classifier(run, name, model, accuracy)
        (run.folder / "checkpoints" / f"{name}.npz").unlink(missing_ok=True)
        (run.folder / "checkpoints" / f"{name}-best.npz").unlink(missing_ok=True)


# Classifiers of a user's own: found fit before anything is trained.


MOST_TRIED = 2000  # samples
EXCHANGED, CHANCE = 3, 0.001  # of classes in each other's places


def take_own(run: Run) -> None:
    """Save the trained classifiers that the recipe names, and try to build the others of a user's own.

    Raises ``BadInput`` for one that does not fit, or does not beat the commonest class on validation.
    """
    section = run.recipe.classifiers
    if not section.files():
        return
    dataset = run.dataset().for_training()
    part = dataset.part("classifiers")  # all of it is validation: nothing is fitted to it here
    part = part.take(np.arange(min(len(part), MOST_TRIED)))
    u = dataset.unit(part.x)
    of_name = zip(NAMES, (dataset.y_names, dataset.z_names), (part.y, part.z), strict=True)
    for name, classes, labels in of_name:
        given = getattr(section, name)
        if classifier_path(run, name).is_file():
            continue
        if given is not None:
            trained = own.Trained(given, dataset.input, len(classes))
            model = trained.classifier(given)
            accuracy, guessing = evaluate(model, u, labels)[1], commonest(labels)
            file, label = trained.path.name, NAMED[name]
            figures = f"{file} reads {label} in {accuracy:.1%} of validation; always guessing the commonest class"
            if not beats_guessing(accuracy, guessing):
                why = looks_wrong(trained, given, u, labels, classes, label)
                raise BadInput(f"{figures} is right in {guessing:.1%}. {why}")
            better = reads_better(trained, given, u, labels, accuracy)  # one that is half right may be taken unseen
            if exchanged := exchanged_classes(confusion(model, u, labels, len(classes)), classes):
                raise BadInput(f"{figures} is right in {guessing:.1%}. {better or exchanged}")
            say(f"{figures}, {guessing:.1%}.{f' {better}' if better else ''}")
            save_classifier(run, name, model, accuracy)
        elif file_of(section.architecture) is not None:
            build(section.architecture, dataset.input, len(classes))


def looks_wrong(
    trained: own.Trained, given: Given, u: np.ndarray, labels: np.ndarray, classes: tuple[str, ...], label: str
) -> str:
    """What is wrong with a trained classifier, by what would mend it: a range, the order of colours or of classes."""
    guessing = commonest(labels)
    if better := reads_better(trained, given, u, labels, guessing):
        return better
    counts = confusion(trained.classifier(given), u, labels, len(classes))
    rows, columns = linear_sum_assignment(-counts)
    right = float(counts[rows, columns].sum() / len(labels))
    if right >= _sure(guessing, len(labels)):
        return f"Its order of classes looks wrong: in another it is right in {right:.1%}. {_expected_order(classes)}"
    return f"No usual range, order of colours or order of classes mends that: was it trained to read this {label}?"


def confusion(model: Any, u: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """How many rows of each class (first axis) are read as each (second axis)."""
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (labels, predict(model, u).argmax(axis=1)), 1)
    return counts


def exchanged_classes(counts: np.ndarray, classes: tuple[str, ...]) -> str:
    """Which classes of a ``confusion`` surely stand in each other's places, in a sentence; "" where none do.

    The best one-to-one assignment splits into cycles, as two swapped classes are. One counts only where each of its
    classes is read as the next ``EXCHANGED`` times as often as itself, and by a one-sided sign test at ``CHANCE`` more
    often. A classifier that is weak, or leans to a class, reads one of two as the other, and does not read both so;
    where neither is preferred, both tests together err once in a million.
    """
    _, taken = linear_sum_assignment(-counts)
    pairs = [(counts[one, other], counts[one, one]) for one, other in enumerate(taken)]
    surely = {
        one
        for one, (as_next, as_it_is) in enumerate(pairs)
        if one != taken[one]
        and as_next >= EXCHANGED * as_it_is
        and binom.sf(as_next - 1, as_next + as_it_is, 0.5) <= CHANCE
    }
    found, seen = [], set[int]()
    for one in sorted(surely):
        cycle, other = [one], int(taken[one])
        while other != one:
            cycle, other = [*cycle, other], int(taken[other])
        if one not in seen and surely.issuperset(cycle):
            found += [
                f"{classes[a]} is read as {classes[taken[a]]} in {counts[a, taken[a]]} of {counts[a].sum()} rows"
                for a in cycle
            ]
        seen.update(cycle)
    if not found:
        return ""
    more = ", ..." if found[6:] else ""
    return f"Some classes look exchanged: {', '.join(found[:6])}{more}. {_expected_order(classes)}"


def _expected_order(classes: tuple[str, ...]) -> str:
    return f"Its logits must be those of {', '.join(classes[:10])}{', ...' if classes[10:] else ''}."


def reads_better(trained: own.Trained, given: Given, u: np.ndarray, labels: np.ndarray, accuracy: float) -> str:
    """The range and order of colours that surely read more than ``accuracy``, in a sentence; "" where none does."""
    sure = _sure(accuracy, len(labels))
    if sure >= 1:
        return ""
    least, most = (tuple(end) if isinstance(end, list) else end for end in (given.low, given.high))
    stated: tuple[End, End] = (least, most)
    other = "rgb" if given.colours == "bgr" else "bgr"
    ways, tried = [], []
    for colours in (given.colours, *([other] if u.shape[-1] == 3 and u.ndim == 4 else [])):
        of_data, usual = own.ranges(trained.spec, colours)
        ways += [(used, colours) for used in dict.fromkeys((stated, *of_data, *usual))]
    for used, colours in ways[1:]:
        one = given.model_copy(update={"low": used[0], "high": used[1], "colours": colours})
        right = float((predict(trained.classifier(one), u).argmax(axis=1) == labels).mean())
        changed = [f"low = {shown(used[0])} and high = {shown(used[1])}"] if used != stated else []
        changed += [f'colours = "{colours}"'] if colours != given.colours else []
        tried.append((right, -len(changed), " and ".join(changed)))
    right, count, change = max(tried, key=lambda one: one[:2])
    if right < sure:
        return ""
    single = max((one for one in tried if one[1] == -1), key=lambda one: one[0])
    if sure <= single[0] and right < _sure(single[0], len(labels)):  # the second change is of no sure use
        right, count, change = single
    what = "range and order of colours look" if count == -2 else "range looks" if "low" in change else None
    return f"Its {what or 'order of colours looks'} wrong: with {change} it is right in {right:.1%}. State that."


def _sure(accuracy: float, rows: int) -> float:
    """An accuracy that is above ``accuracy`` by more than the luck of the best of several."""
    return accuracy + max(3 * float(np.sqrt(accuracy * (1 - accuracy) / rows)), MARGIN * (1 - accuracy))


def train_joint(dataset: Dataset, settings: Classifiers, budget: Budget, *, seed: int, log: Log) -> Any:
    """A classifier of what is priced, for a data set ``as_priced()``: trained on the first slice as D_z is."""
    import keras

    fit, choose = fit_and_validation(dataset, "classifiers")
    keras.utils.set_random_seed(seed)
    model = build(settings.architecture, dataset.input, len(dataset.z_names))
    both = ((dataset.unit(part.x), part.z) for part in (fit, choose))
    epochs = budget.classifier_epochs
    train_one(model, *both, settings=settings, batch=budget.batch, epochs=epochs, seed=seed, log=log, stage="joint")
    return model


def train_labels(dataset: Dataset, settings: Classifiers, budget: Budget, *, seed: int, log: Log) -> Any:
    """A classifier of y trained on the first two slices, as D_y is on the first, and chosen on both validation cuts."""
    import keras

    cuts = fit_and_validation(dataset, "classifiers"), fit_and_validation(dataset, "perturber")
    rows = (dataset.rows(np.concatenate([part.index for part in parts])) for parts in zip(*cuts, strict=True))
    both = ((dataset.unit(part.x), part.y) for part in rows)
    keras.utils.set_random_seed(seed)
    model = build(settings.architecture, dataset.input, len(dataset.y_names))
    epochs = budget.classifier_epochs
    train_one(model, *both, settings=settings, batch=budget.batch, epochs=epochs, seed=seed, log=log, stage="labels")
    return model


def classifier_path(run: Run, name: str) -> Path:
    """The file of D_y or D_z, by its name in ``NAMES``."""
    return run.folder / "classifiers" / f"{name}.keras"


def save_classifier(run: Run, name: str, model: Any, accuracy: float) -> None:
    """Save D_y or D_z whole or not at all, and record its accuracy."""
    with atomic_path(str(classifier_path(run, name))) as temporary:
        model.save(temporary)
    run.record(classifiers={**run.facts.get("classifiers", {}), name: {"validation_accuracy": accuracy}})


def train_one(
    model: Any,
    fit: tuple[np.ndarray, np.ndarray],
    choose: tuple[np.ndarray, np.ndarray],
    *,
    settings: Classifiers,
    batch: int,
    epochs: int,
    seed: int,
    log: Log,
    stage: str,
    title: str = "",
    enough: Callable[[], bool] = lambda: False,
) -> float:
    """Train ``model`` (unit cube to logits); at the end it has its best weights by validation loss.

    ``fit`` and ``choose`` are samples in the unit cube with their labels, ``seed`` is of the batches' order, ``title``
    of the progress that is shown. Asked after each epoch, ``enough`` ends the training.
    Returns the accuracy on ``choose``. Raises ``LimitNotMet`` where the loss stops being a number.
    """
    import keras
    import tensorflow as tf

    (u, labels), batch = fit, min(batch, len(fit[1]))
    feed = Feed(u, labels.astype(np.int32))
    steps = len(labels) // batch
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(settings.learning_rate, steps * epochs))
    optimizer.build(model.trainable_variables)
    shift = settings.shift if u.ndim == 4 else 0

    @compiled
    def step(offset: tf.Tensor, *given: tf.Tensor) -> tf.Tensor:
        x, of = feed(*given)
        if shift:
            x = _moved(x, offset, shift)
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(of, logits))
        descend(loss, tape, model, optimizer)
        return loss

    @tf.function(reduce_retracing=True)
    def settle(x: tf.Tensor) -> None:
        model(x, training=True)

    last = log.checkpoint(stage, model=model, optimizer=optimizer)
    best = log.checkpoint(f"{stage}-best", model=model)
    facts = last.restore() or {"epoch": 0, "best": None, "accuracy": 0.0, "since": 0}
    shown = title or f"classifier of the {stage} attribute"
    with whole_steps() as check, progress(shown, total=epochs, done=facts["epoch"]) as advance:
        while facts["epoch"] < epochs and facts["since"] < settings.patience:
            epoch = facts["epoch"] + 1
            rng = np.random.default_rng([seed, epoch])
            order = rng.permutation(len(labels))[: steps * batch].reshape(steps, batch)
            losses = [
                float(step(tf.constant(rng.integers(-shift, shift + 1, 2)), *given)) for given in feed.batches(order)
            ]
            if epoch * steps < SETTLING:
                with averages_anew(model):
                    settle(tf.constant(feed.some(order.reshape(-1)[:SETTLE])))
            loss, accuracy = evaluate(model, *choose)
            if not np.isfinite([loss, *losses]).all():
                raise LimitNotMet(
                    f"Training the {stage} classifier diverged in epoch {epoch}: the loss is no longer a number. "
                    "Lower `classifiers.learning_rate` in the recipe and train into another folder."
                )
            log.metric(
                stage=stage, step=epoch, loss=float(np.mean(losses)), validation_loss=loss, validation_accuracy=accuracy
            )
            better = facts["best"] is None or loss < facts["best"]
            facts = {
                "epoch": epoch,
                "best": loss if better else facts["best"],
                "accuracy": accuracy if better else facts["accuracy"],
                "since": 0 if better else facts["since"] + 1,
            }
            if better:
                best.save()
            last.save(**facts)
            advance(loss=float(np.mean(losses)), accuracy=accuracy)
            check()
            if enough():
                break
    best.restore()
    return facts["accuracy"]


SETTLING = 200  # steps, before which the averages of batch norm lag behind weights that change fast
SETTLE = 512  # rows from which they are taken anew


@contextmanager
def averages_anew(model: Any) -> Iterator[None]:
    """Within the block, a pass in training mode replaces the averages of each batch norm by its statistics.

    A network of few steps reads well in training and nothing in use, where its averages are still those of its start.
    """
    from keras import layers

    normed = [layer for layer in model._flatten_layers() if isinstance(layer, layers.BatchNormalization)]
    usual = [layer.momentum for layer in normed]
    try:
        for layer in normed:
            layer.momentum = 0.0
        yield
    finally:
        for layer, momentum in zip(normed, usual, strict=True):
            layer.momentum = momentum


def evaluate(model: Any, u: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Mean cross-entropy and accuracy of a classifier on unit-cube samples."""
    logits = predict(model, u).astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return float(-log_p[np.arange(len(labels)), labels].mean()), float((logits.argmax(axis=1) == labels).mean())


def _moved(x: Any, offset: Any, most: int) -> Any:
    """All images of a batch moved by ``offset`` (down, right) within a border of zeros."""
    import tensorflow as tf

    height, width = x.shape[1], x.shape[2]
    wide = tf.pad(x, [[0, 0], [most, most], [most, most], [0, 0]])
    return tf.slice(wide, [0, most - offset[0], most - offset[1], 0], [-1, height, width, -1])


# D_y and D_z by least squares, for cleaners: D_y sees A_d^T x, which a cleaner keeps, and D_z is paper 000's f_c.


def train_linear(run: Run) -> None:
    """Fit D_y and D_z on the whole first slice, unless RUN/classifiers has them."""
    from edgeveil.models.classifiers import linear

    dataset = run.dataset().for_training()
    section = cast(LinearSection, run.recipe.perturber)  # only recipes of these kinds have linear classifiers
    part = dataset.part("classifiers")
    x = as_float64(part.x)
    _, choose = fit_and_validation(dataset, "classifiers")
    of_name = zip(NAMES, (dataset.y_names, dataset.z_names), (part.y, part.z), (choose.y, choose.z), strict=True)
    for name, classes, labels, held in of_name:
        if classifier_path(run, name).is_file():
            continue
        operator = linear_problem(section, dataset).a_d if name == "target" else None
        seen = x if operator is None else applied(lambda some, by=operator: some @ by, x)  # type: ignore[misc]
        centre, share = mean_of(seen), np.eye(len(classes))[labels]
        around = applied(lambda some, middle=centre: some - middle, seen)  # type: ignore[misc]
        weights = np.linalg.lstsq(*condensed(around, share - share.mean(axis=0)), rcond=None)[0]
        model = linear(weights, share.mean(axis=0) - centre @ weights, operator)
        save_classifier(run, name, model, evaluate(model, dataset.unit(choose.x), held)[1])
