"""The page on a worn motion sensor, from its records."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.trainer.recipe.schema import Recipe
from edgeveil.trainer.report import frontier
from scripts.reproduce import record
from scripts.reproduce.codebooks import frontiers
from scripts.reproduce.series import motion, motion_unseen

NAME = "motion"
PAGE, PICTURE = Path("docs/results/motion.md"), Path("docs/results/motion-frontier.svg")
SWEPT = frontiers.RESULTS / f"frontier-{NAME}.json"
NAMED = ("energy", "tempo")  # what the recipe asks its codes to keep
PROPERTIES = ("energy", "tempo", "duration")
CHANCES = {"prior": "chance", "majority": "counted chance"}
NEAR = 0.03  # of either: the target
WHOLE = 0.98  # of what is read of y from raw windows: the target
READ = 0.5  # correlation within y: the target
HEAD = """# Motion

A worn sensor on 8 people who do 27 actions (`utd-mhad`): windows of 2 s, one every half second. The action y is kept,
the person hidden. Attacks are those of a {budget} audit, on int8 artefacts; chance is {prior}, or {counted} by counted
P(z | y). y is the label that leaves or, where none does, what D_y reads. The label of label-only is D_y's, of
one slice; that of a codebook learned from two, and so did the network that reads y from raw windows. Energy, tempo and
duration are correlations, within an action, of what a recipient's small network reads from what leaves.
`python -m scripts.reproduce.series.motion` records it.

"""
GOALS = """
## What the codebook reaches

Not all can be kept: the correlation of a property with what tells nothing of the person is at most
{bounds}.

"""
ADD_UP = """
**A code for every window adds up.** {windows} windows of one recording together name the person {right} of the time
(chance {chance}; seed {seed}).
"""
TRADE = """
**The trade.** Beside label-only and on average over seeds, the codebook gives
{kept}; the best attack on the person
gains {points:.1f} points.
"""
UNSEEN = """
## People never seen

{splits} choices of {new} people of 8 whom neither codebook nor classifiers saw
(`python -m scripts.reproduce.series.motion_unseen`). Attacks learn on these people's own windows, as they leave; chance
is by counted P(z | y). y of raw windows is what D_y reads of them.

"""
FRONTIER = """
## The frontier

{points} settings, one run of seed 0 each (`python -m scripts.reproduce.codebooks.frontiers motion`), measured on the
run's own networks: codes of an action, the weight of tempo beside that of energy, the price of what a code tells of the
person. None was chosen here. y is what D_y reads of the window that leaves; kept is the correlation within an action
between a window and the one that leaves. Chance is {chance}, by counted P(z | y). The recipe is marked; this is another
run of it than those above.

{table}
On average {gains}.

![Action read and energy and tempo kept against the best attack on the person, by codes and weight of tempo; each line
goes over the price.](motion-frontier.svg)
"""


def write() -> None:
    """Write the page from the records that there are; none without the first."""
    found = [record.read(path) for path in (motion.RESULT, motion_unseen.RESULT, SWEPT)]
    if found[0]:
        write_atomic(str(PAGE), page(*found).encode())
    if found[2]:
        draw(found[2])


def page(rows: Mapping[str, Any], unseen: Mapping[str, Any], swept: Mapping[str, Any]) -> str:
    """The page as Markdown; ``unseen`` and ``swept`` may be empty."""
    seed, found = next(iter(rows["seeds"].items()))
    first = found["codebook"]
    prior, counted = (_percent(first["chance"][name]) for name in ("prior", "majority"))
    parts = [
        HEAD.format(budget=first["budget"], prior=prior, counted=counted),
        _perturbers(rows["seeds"]),
        GOALS.format(bounds=", ".join(f"{value:.2f} for {name}" for name, value in rows["most_kept"].items())),
        _goals(rows["seeds"], rows["label_of_raw"]),
        _trade(rows["seeds"].values()),
        _added_up(seed, first),
    ]
    if swept:
        parts.append(_frontier(frontier.measured(swept)))
    if unseen:
        splits = unseen["splits"]
        parts += [UNSEEN.format(splits=len(splits), new=len(splits[0]["new"])), _never_seen(splits)]
    return "".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _perturbers(seeds: Mapping[str, Any]) -> str:
    head = ["what leaves", "seed", "y", "best attack on the person", "by", *PROPERTIES]
    names = list(dict.fromkeys(name for found in seeds.values() for name in found))
    rows = [[name, seed, *_figures(found[name])] for name in names for seed, found in seeds.items() if name in found]
    return _table(head, rows)


def _figures(row: Mapping[str, Any]) -> list[str]:
    best = row["worst_adaptive"]
    kept = [f"{value:.2f}" for value in _kept(row["collateral"]["perturbed"]["read_from_it"])]
    return [_rate(_y(row)), _rate(best), best["name"], *kept]


def _y(row: Mapping[str, Any]) -> Mapping[str, float]:
    found: Mapping[str, float] = row["target"] if row["label"] is None else row["label"]
    return found


def _kept(read: Mapping[str, Any]) -> list[float]:
    return [read["attributes"][name]["correlation"] for name in PROPERTIES]


def _goals(seeds: Mapping[str, Any], raw: Mapping[str, Any]) -> str:
    """Each target, and what of it is reached by seed."""
    codes = [found["codebook"] for found in seeds.values()]
    whole = [_y(code)["accuracy"] / raw[seed]["accuracy"] for seed, code in zip(seeds, codes, strict=True)]
    rows = [
        ["y, of what is read from raw windows", f"at least {_percent(WHOLE)}"]
        + [_marked(_percent(one), met=one >= WHOLE) for one in whole]
    ]
    for name, said in CHANCES.items():
        over = [code["worst_adaptive"]["accuracy"] - code["chance"][name] for code in codes]
        cells = [_marked(f"{100 * one:.1f}", met=one <= NEAR) for one in over]
        rows.append([f"best attack, points above {said}", f"at most {100 * NEAR:.1f}", *cells])
    kept = zip(*(_kept(code["collateral"]["perturbed"]["read_from_it"]) for code in codes), strict=True)
    for name, values in zip(PROPERTIES, kept, strict=True):
        rows.append([name, f"at least {READ:.2f}", *(_marked(f"{one:.2f}", met=one >= READ) for one in values)])
    return _table(["", "target (**met**)", *(f"seed {seed}" for seed in seeds)], rows)


def _marked(said: str, *, met: bool) -> str:
    return f"**{said}**" if met else said


def _trade(seeds: Iterable[Mapping[str, Any]]) -> str:
    """What the codebook gives beyond label-only, and what that costs."""
    both = [(found["codebook"], found["label-only"]) for found in seeds]
    read = [[_kept(row["collateral"]["perturbed"]["read_from_it"]) for row in pair] for pair in both]
    gains = np.mean([np.subtract(*pair) for pair in read], axis=0)
    points = 100 * np.mean(
        [code["worst_adaptive"]["accuracy"] - one["worst_adaptive"]["accuracy"] for code, one in both]
    )
    kept = ", ".join(f"{gain:+.2f} of {name}" for name, gain in zip(PROPERTIES, gains, strict=True))
    return TRADE.format(kept=kept, points=points)


def _added_up(seed: str, row: Mapping[str, Any]) -> str:
    last = [one for one in row["streams"]["tracks"] if "right" in one][-1]
    return ADD_UP.format(
        windows=last["releases"],
        right=_percent(max(last["right"].values())),
        chance=_percent(last["chance"]),
        seed=seed,
    )


def _frontier(rows: Sequence[Mapping[str, Any]]) -> str:
    head = ["codes", "weight of tempo", "price", "y", "best attack on the person", "by", *PROPERTIES]
    recipe = Recipe.find(f"motion-{motion.KINDS[0]}")
    cells = []
    for row in rows:
        settings = row["settings"]
        words = ["label-only", "-", "-"] if row["floor"] else list(_words(settings))
        if settings and all(_value(recipe, key) == value for key, value in settings.items()):
            words[0] += " (recipe)"
        kept = [f"{row['kept'][name]['correlation']:.2f}" if name in row["kept"] else "-" for name in PROPERTIES]
        cells.append([*words, _rate(row["target"]), _rate(row["leak"]), row["leak"]["name"], *kept])
    points = sum(not row["floor"] for row in rows)
    chance = _percent(rows[0]["chance"]["majority"])
    gains = "; ".join(_gains([row for row in rows if not row["floor"]]))
    return FRONTIER.format(points=points, chance=chance, table=_table(head, cells), gains=gains)


def _gains(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the last value of each setting gives beside its first, on average over the others."""
    for place, name in enumerate(("codes", "as weight of tempo", "as price")):
        values = list(dict.fromkeys(_words(row["settings"])[place] for row in rows))
        figures = [
            np.mean([_gain(row) for row in rows if _words(row["settings"])[place] == value], axis=0)
            for value in (values[0], values[-1])
        ]
        *kept, points = figures[1] - figures[0]
        gains = ", ".join(f"{one:+.2f} of {what}" for what, one in zip(NAMED, kept, strict=True))
        yield f"{values[-1]} {name} in place of {values[0]} give {gains} and {points:+.1f} points to the attack"


def _gain(row: Mapping[str, Any]) -> list[float]:
    return [*(row["kept"][name]["correlation"] for name in NAMED), 100 * row["leak"]["accuracy"]]


def _words(settings: Mapping[str, Any]) -> tuple[str, str, str]:
    energy, tempo = settings["perturber.weights"]
    return str(settings["perturber.codes"]), f"{tempo / energy:g}", f"{settings['perturber.price']:g}"


def _value(recipe: Recipe, key: str) -> Any:
    section, name = key.split(".")
    return getattr(getattr(recipe, section), name)


def draw(swept: Mapping[str, Any], target: Path = PICTURE) -> None:
    """The points as SVG, a line over the price for all others."""
    points = []
    for row in swept["points"]:
        if row["floor"]:
            points.append(row)
            continue
        codes, tempo, _ = _words(row["settings"])
        points.append({**row, "recipe": f"{codes} codes, tempo x {tempo}"})
    with tempfile.TemporaryDirectory() as folder:
        svg, _ = frontier.draw({**swept, "points": points}, Path(folder), kept=NAMED)
        write_atomic(str(target), svg.read_bytes())


def _never_seen(splits: Sequence[Mapping[str, Any]]) -> str:
    head = ["what leaves", "never seen", "y", "best attack on the person", "by", "chance", *PROPERTIES]
    rows = []
    for name in splits[0]["rows"]:
        for one in splits:
            row, who = one["rows"][name], ", ".join(map(str, one["new"]))
            best, kept = row["worst_adaptive"], [f"{value:.2f}" for value in _kept(row["read_from_it"])]
            chance = _percent(row["chance"]["majority"])
            rows.append([name, who, _rate(_y(row)), _rate(best), best["name"], chance, *kept])
    return _table(head, rows)


def _rate(value: Mapping[str, Any]) -> str:
    return f"{_percent(value['accuracy'])} [{100 * value['low']:.1f}, {100 * value['high']:.1f}]"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
