"""Data sets: one loader per file; ``load`` checks what it loads and cuts it into slices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.datasets import joint, prior, slicing
from edgeveil.trainer.datasets.base import Dataset, Sampling, Slices
from edgeveil.trainer.datasets.columns import read_recordings, read_table
from edgeveil.trainer.datasets.encoding import of_table
from edgeveil.trainer.datasets.loaders import films, formats, image_folder, npz, recordings
from edgeveil.trainer.datasets.loaders.captured import captured
from edgeveil.trainer.datasets.ranges import OF_PEOPLE, OF_RELEASES, input_spec, without_range
from edgeveil.trainer.datasets.readings import Readings, check_windows
from edgeveil.trainer.recipe.data_section import PICTURES, SETS, Series, format_of

if TYPE_CHECKING:
    from edgeveil.trainer.recipe.schema import Recipe

PERSON = "person"  # the attribute of data sets that say who it is


def load(recipe: Recipe, *, slices: Slices | None = None) -> Dataset:
    """The data set of a recipe, cut into slices by the recipe's seed, with its prior completed to MED.

    ``slices`` are those of an earlier load, instead of a new cut. Raises ``BadInput``: no such data, a wrong checksum,
    NaN, wrong shapes, too few rows of a class, an impossible prior.
    """
    public = _public(recipe)
    readings = _read(recipe).named(recipe.data.targets[0], recipe.data.sensitives[0])
    readings, joint_classes = joint.joined(readings, recipe.data)
    cluster, cluster_kind = slicing.clusters(readings.z, subject=readings.subject, session=readings.session)
    units = None
    if recipe.private is not None:
        units = slicing.units_of(
            len(readings.y),
            recipe.private.unit,
            subject=readings.subject,
            session=readings.session,
            kept_whole=cluster_kind,
            people=readings.subject is not None or PERSON in recipe.data.attributes,
            seed=recipe.seed,
        )
    if slices is None:
        rng = np.random.default_rng([recipe.seed, 0])
        if units is None:
            slices = slicing.cut(
                readings.y, readings.z, cluster=cluster, rng=rng, rows=recipe.budget.rows, test=readings.test
            )
        elif readings.test is not None:
            raise BadInput(
                "[private] cuts whole units by a keyed hash, and these data come with a split of their own, train and "
                "test: move the folders of the classes out of them."
            )
        else:
            slices = slicing.cut_by_unit(units, rng=rng, rows=recipe.budget.rows)
    elif slices.rows().max() >= len(readings.y):
        raise BadInput(
            f"{recipe.data.source} has {len(readings.y)} rows, fewer than when its slices were cut. Put the data back "
            "as they were, or train into another folder."
        )
    for labels, names, of in ((readings.y, readings.y_names, "y"), (readings.z, readings.z_names, "z")):
        slicing.check_classes(labels, names, of=of, slices=slices, cluster=cluster)
    training = slices.training()
    y, z = readings.y[training], readings.z[training]
    slicing.check_hidden(y, z)
    hidden = joint.priced(recipe.data, readings.known, slices=slices)
    unbounded = recipe.perturber.unbounded
    if unbounded:
        readings = without_range(readings, homogeneous=recipe.data.homogeneous)
    input_ = input_spec(readings, training, recipe.data, public=public, unbounded=unbounded)
    return Dataset(
        name=recipe.data.own[0] if recipe.data.own else recipe.data.source,
        x=readings.x,
        y=readings.y,
        z=readings.z,
        y_names=readings.y_names,
        z_names=readings.z_names,
        theta=prior.theta(
            recipe.prior,
            y,
            z,
            names=(readings.y_names, readings.z_names),
            public=units is not None,
            joint=joint_classes.get("z"),
        ),
        input=input_,
        slices=slices,
        cluster=cluster,
        cluster_kind=cluster_kind,
        attributes=readings.attributes,
        known=readings.known,
        priced=hidden,
        joint=joint_classes,
        labels=readings.labels,
        consent=readings.consent,
        units=units,
        seed=recipe.seed,
        homogeneous=recipe.data.homogeneous,
    )


def _public(recipe: Recipe) -> str | None:
    """Why bounds must be public; None where they need not be."""
    if recipe.private is not None:
        return OF_PEOPLE
    return OF_RELEASES if recipe.perturber.promises else None


def _read(recipe: Recipe) -> Readings:
    data = recipe.data
    if data.own is not None:
        return own(recipe, *data.own)
    names = {"target": data.targets[0], "sensitive": data.sensitives[0]}
    others = [*(data.also_sensitive or ()), *(one for one in data.attributes if one not in names.values())]
    one_each = data.model_copy(update={**names, "also_sensitive": others or None})
    readings: Readings = SETS[data.source].load().read(one_each, recipe.capture)
    return readings


def own(recipe: Recipe, kind: str, path: Path) -> Readings:
    """The user's own data of a recipe. Raises ``BadInput``."""
    data, series = recipe.data, recipe.data.series
    sampling = None if series is None else _sampling(series)
    capture = recipe.capture if series is None else None
    labels = None if data.labels is None else Path(data.labels)
    if data.columns is None:
        readings = npz.load(path, wanted=data.wanted, series=sampling)
        readings = readings if capture is None else captured(readings, capture, path)
    elif labels is not None and kind in PICTURES:
        load_pictures = films.load if kind == "video" else image_folder.load
        return load_pictures(path, labels, data.columns, capture)
    elif series is not None and sampling is not None and not data.windows:
        recorded, of_roles = read_recordings(kind, path, data.columns, sampling.channels, labels)
        return recordings.windows_of(recorded, of_roles, sampling, series, path)
    else:
        table = read_table(kind, path, data.columns.missing, data.columns.x)
        if format_of(kind) and (series is not None or table.arrays or data.columns.x):
            readings = formats.load(table, data.columns, capture, labels=labels, series=sampling)
        elif capture is not None:
            raise BadInput("`[capture]` makes samples of a sensor's frames, and a table has none: leave it out.")
        else:
            readings = of_table(table, data.columns)
    if series is not None:
        check_windows(readings.x, series, path)
    return readings


def _sampling(series: Series) -> Sampling:
    return Sampling(float(series.rate_hz or 0), tuple(series.channels or ()), tuple(series.units or ()))
