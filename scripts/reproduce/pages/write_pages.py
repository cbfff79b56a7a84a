"""Writes the pages of docs/results, and docs/reference/recipes.md, from records and code; no number is typed by hand.

A page whose record is not there is left out; left out of the command line, all of them are written.
"""

import functools
import json
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2

from edgeveil.edge_runtime.storage.atomic import write_atomic
from edgeveil.trainer.measures.intervals import Interval, mean
from edgeveil.trainer.measures.permutation import SHUFFLES
from edgeveil.trainer.report.bench import write_guide
from scripts.reproduce.attacks import planted
from scripts.reproduce.counting import accept_site, count_people, counting_page
from scripts.reproduce.dp import federated_devices, local, local_sgd
from scripts.reproduce.installing import workstation_pythons
from scripts.reproduce.pages import (
    capture_loop_page,
    codebooks_page,
    figure_7_page,
    four_slices_page,
    peers_page,
    power_page,
    predictors_page,
    recipe_times_page,
    recipes_page,
    streams,
    table_2_cells,
    table_2_page,
    unseen_people,
)
from scripts.reproduce.pages.boards import board_pages
from scripts.reproduce.pages.dp import local_page, private_page
from scripts.reproduce.pages.four_slices_page import noted, of_four
from scripts.reproduce.pages.series import motion_page
from scripts.reproduce.papers import figure_6, figure_7
from scripts.reproduce.publishing import (
    anonymity,
    archive_cost,
    counted_by_others,
    linkage,
    newcomer,
    pseudonym_attack,
    pseudonyms,
    publishing_page,
    ray_leaks,
    whole_archive,
)
from scripts.reproduce.record import ROOT, Script, run
from scripts.reproduce.security import downgrades, guards
from scripts.reproduce.series import motion
from scripts.reproduce.strangers import strangers, strangers_page

RECORD = Path("docs/results/privacy/mnist-prgan.json")
TEMPLATES = Path(__file__).parent / "templates"
PAGE = Path("docs/results/mnist.md")
TABLE_2, TABLE_2_PAGE = Path("docs/results/privacy/table-2"), Path("docs/results/table-2.md")
CODEBOOKS = "docs/results/privacy/codebook-{}.json"
FIG_6, FIG_6_PAGE = Path("docs/results/privacy/figure-6"), Path("docs/results/figure-6.md")
FIG_7, FIG_7_PAGE = Path("docs/results/privacy/frontier-fig-7.json"), Path("docs/results/figure-7.md")
PICTURE = Path("docs/results/figure-7.svg")
UNSEEN, UNSEEN_PAGE = Path("docs/results/privacy/unseen.json"), Path("docs/results/unseen-people.md")
BENCHES, LOOP_PAGE = Path("docs/results/bench"), Path("docs/results/capture-loop.md")
RECIPES, RECIPES_PAGE = BENCHES / "recipes.json", Path("docs/results/recipe-times.md")
DEVICES = Path("docs/results/devices")
ETHOS_U, MICRO, ETHOS_U_PAGE = DEVICES / "ethos-u.json", DEVICES / "tflite-micro.json", Path("docs/results/ethos-u.md")
RK3588, RK3588_PAGE = DEVICES / "rk3588.json", Path("docs/results/rk3588.md")
GUARDS_PAGE = Path("docs/results/guards.md")
EMISSION, EMISSION_PAGE = BENCHES / "emission-times.json", Path("docs/results/emission-times.md")
STREAMS, STREAMS_PAGE = Path("docs/results/privacy/streams.json"), Path("docs/results/streams.md")
POWER, POWER_PAGE = Path("docs/results/privacy/power.json"), Path("docs/results/power.md")
POWER_PICTURE = Path("docs/results/power.svg")
PREDICTORS, CLEANERS_PAGE = Path("docs/results/predictors"), Path("docs/results/linear-cleaners.md")
PEERS, PEERS_PAGE = Path("docs/results/privacy/peers.json"), Path("docs/results/peers.md")
FOUR_SLICES_PAGE = Path("docs/results/four-slices.md")
ESTIMATOR_PAGE = Path("docs/results/estimator.md")
LOCAL_PAGE = Path("docs/results/local-privacy.md")
PRIVATE_PAGE = Path("docs/results/private-models.md")
PYTHONS_PAGE = Path("docs/results/pythons.md")
PUBLISHING = tuple(
    script.RESULT
    for script in (
        anonymity,
        linkage,
        pseudonyms,
        newcomer,
        whole_archive,
        pseudonym_attack,
        archive_cost,
        ray_leaks,
        counted_by_others,
    )
)
PUBLISHING_PAGE = Path("docs/results/publishing.md")
STRANGERS_PAGE = Path("docs/results/strangers.md")


def rate(value: dict[str, Any] | None) -> str:
    """An accuracy in % with its 95 % interval; - for none."""
    if value is None:
        return "-"
    return f"{100 * value['accuracy']:.1f} [{100 * value['low']:.1f}, {100 * value['high']:.1f}]"


def share(value: float) -> str:
    """A share in %."""
    return f"{100 * value:.1f}"


def strongest(document: dict[str, Any], kind: str) -> dict[str, Any] | None:
    """The adversary of that kind which was right most often; None where none ran."""
    rows = (row for row in document["adversaries"] if row["kind"] == kind)
    return max(rows, key=lambda row: row["accuracy"], default=None)


def command(made_by: str) -> str:
    """What to type after ``.venv/bin/`` to make a record."""
    path, *words = made_by.split(" ")
    return " ".join(["python -m", path.removesuffix(".py").replace("/", "."), *words])


def interval(value: Interval) -> str:
    """A share in % with its 95 % interval."""
    return f"{100 * value.estimate:.1f} [{100 * value.low:.1f}, {100 * value.high:.1f}]"


def templates() -> jinja2.Environment:
    """Where the pages' texts are, with the ways to write numbers."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=jinja2.select_autoescape(),
    )
    environment.filters.update(rate=rate, share=share, strongest=strongest, interval=interval, command=command)
    return environment


def streams_page(record: dict[str, Any]) -> str:
    """The page on streams as Markdown."""
    looked_at = record["settings"]["looked_at"]

    def of_target(found: dict[str, Any]) -> dict[str, Any]:
        def over(population: str, way: str, *, without: int = 0) -> str:
            if way not in streams.BASELINE:
                return ""
            left = streams.without_first(found, without)
            if len(left["splits"]) < 2:
                return "too few splits"
            return interval(streams.over_baseline(left, population, way, "T=16"))

        def excess(population: str) -> str:
            plug_in, null = (streams.per_split(found, population, "certificate", key) for key in ("plug_in", "null"))
            return interval(mean(plug_in - null))

        return {
            "splits": found["splits"],
            "over": over,
            "excess": excess,
            "by_worst": list(streams.by_worst_person(found, "held", "T=16")),
            **{name: functools.partial(getattr(streams, name), found) for name in ("best", "linkage", "per_split")},
        }

    return (
        templates()
        .get_template("streams.md.j2")
        .render(
            record=record,
            looked_at=looked_at,
            targets={name: of_target(found) for name, found in record["targets"].items()},
            populations=streams.POPULATIONS,
            ways=streams.WAYS,
            lengths=streams.LENGTHS,
        )
    )


def page(record: dict[str, Any]) -> str:
    """The page on MNIST as Markdown."""
    audits = record["audits"]
    rows = [(name, audits[name]) for name in ("keras", "tflite-float32", "tflite-int8", "onnx-float32")]
    rows.append(("label-only", audits["tflite-int8"]["label_only"]))
    template = templates().get_template("mnist.md.j2")
    bench = list(record["bench"].items())
    return noted(template.render(record=record, shipped=audits["tflite-int8"], rows=rows, bench=bench), record)


def render_table_2(records: list[dict[str, Any]], codebooks: dict[str, dict[str, Any]]) -> str:
    """The page on Tables 2 and 5 as Markdown; what is missing in it is said to be."""
    sections = table_2_cells.sections(records, codebooks)
    template = templates().get_template("table-2.md.j2")
    new = {row["row"] for row in records if of_four(row)}
    old = {f"{row['row']} ({row['data']})" if row["row"] in new else row["row"] for row in records if not of_four(row)}
    which = f": {', '.join(sorted(old))}"
    return noted(template.render(sets=sections, made_with=table_2_cells.made_with(records)), *records, which=which)


def four_slices() -> str:
    """The page on what the fourth slice changed as Markdown."""
    old = json.loads(four_slices_page.OLD.read_text())["figures"]
    new = four_slices_page.figures(four_slices_page.PRIVACY, four=True)
    template = templates().get_template("four-slices.md.j2")
    return template.render(leaks=four_slices_page.leaks(), rows=list(four_slices_page.compared(old, new)))


def fig_6_page(records: list[dict[str, Any]]) -> str:
    """The page on figure 6 as Markdown; its pictures were drawn with the records."""
    template = templates().get_template("figure-6.md.j2")
    return template.render(
        records=records, kinds=figure_6.NAMES, names=table_2_cells.NAMES | {"digits": "Digits of scikit-learn"}
    )


def fig_7_page(record: dict[str, Any]) -> str:
    """The page on figure 7 as Markdown; its picture is drawn beside it."""
    kinds = {row.get("perturber") for row in record["points"]}
    found = {(row["recipe"], key) for row in record["points"] for key in row["settings"]}
    missing = [
        f"{kind} along {axis.key}"
        for swept, axis in figure_7.SWEEPS.values()
        for kind in swept
        if (f"wifi-{kind}", axis.key) not in found
    ]
    template = templates().get_template("figure-7.md.j2")
    tables = {"rows": list(figure_7_page.cells(record)), "over_seeds": list(figure_7_page.over_seeds(record))}
    return noted(template.render(record=record, kinds=kinds, missing=missing, **tables), record)


def unseen_page(record: dict[str, Any]) -> str:
    """The page on people who were never seen as Markdown."""
    template = templates().get_template("unseen-people.md.j2")
    return template.render(sets=unseen_people.sections(record))


def power(record: dict[str, Any]) -> str:
    """The page on the power of an audit's attacks as Markdown; its picture is drawn as well."""
    strengths, table = power_page.strengths_of(record), list(power_page.table(record))
    kinds = [
        (kind, str(leak.plant.__doc__).strip().rstrip("."), f"{100 * leak.share:g} %")
        for kind, leak in sorted(planted.LEAKS.items())
    ]
    return (
        templates()
        .get_template("power.md.j2")
        .render(
            record=record,
            command=record["made_by"].removesuffix(".py").replace(".py", "").replace("/", "."),
            shuffles=SHUFFLES,
            strengths=strengths,
            rows=power_page.rows_of(record),
            table=table,
            missing=any("-" in line for line in table),
            kinds=kinds,
            bits=[(strength, planted.bits_of(strength)) for strength in strengths],
            alarms=power_page.false_alarms(record),
        )
    )


def peers(record: dict[str, Any]) -> str:
    """The page on what is in use today as Markdown."""
    template = templates().get_template("peers.md.j2")
    return template.render(
        record=record, sets=peers_page.sections(record), sentences=list(peers_page.sentences(record))
    )


def guards_page(record: dict[str, Any]) -> str:
    """The page on attacks, guards and their tests as Markdown; the record of downgrades lies beside that of guards."""
    beside = json.loads((ROOT / downgrades.RESULT).read_text())
    return templates().get_template("guards.md.j2").render(record=record, downgrades=beside)


def of_strangers(record: dict[str, Any]) -> str:
    """The page on data that nobody here made as Markdown."""
    template = templates().get_template("strangers.md.j2")
    return template.render(record=record, rows=strangers_page.rows(record), missing=strangers_page.missing(record))


def emission_times(record: dict[str, Any]) -> str:
    """The page on the times at which results leave as Markdown."""
    return templates().get_template("emission-times.md.j2").render(record=record)


def recipe_times(record: dict[str, Any]) -> str:
    """The page on what each recipe takes as Markdown."""
    made_with = {
        f"* {row['machine']['cores']} cores, {row['machine']['architecture']}; "
        + ", ".join(f"{name} {version}" for name, version in sorted(row["versions"].items()))
        + "."
        for row in record["rows"]
    }
    template = templates().get_template("recipe-times.md.j2")
    return template.render(rows=list(recipe_times_page.rows(record)), made_with=sorted(made_with))


def ethos_u(record: dict[str, Any]) -> str:
    """The page on Ethos-U NPUs as Markdown; recipes with the same network share a row."""
    alike: dict[str, list[dict[str, Any]]] = {}
    for row in record["rows"]:
        alike.setdefault(json.dumps(row["on"]), []).append(row)
    rows = [
        [
            ", ".join(row["recipe"] for row in same),
            f"{same[0]['macs'] / 1e6:,.3f}",
            *(f"{one['on_npu']} of {one['on_npu'] + one['on_cpu']}, {one['ms']:.3f}" for one in same[0]["on"]),
        ]
        for same in alike.values()
    ]
    systems = ", ".join(f"{one['system']} ({one['clock_mhz']:.0f} MHz)" for one in record["rows"][0]["on"])
    micro = json.loads(MICRO.read_text()) if MICRO.is_file() else {"rows": []}
    told = {
        "micro": micro,
        "aborted": [row for row in micro["rows"] if "did_not_run" in row],
        "apart": [row for row in micro["rows"] if row.get("differ")],
        "equal": sum(row.get("differ") == 0 for row in micro["rows"]),
    }
    return templates().get_template("ethos-u.md.j2").render(record=record, rows=rows, systems=systems, **told)


def rk3588(record: dict[str, Any]) -> str:
    """The page on the RK3588 as Markdown; recipes with the same figures share a row."""
    alike: dict[str, list[dict[str, Any]]] = {}
    for row in record["rows"]:
        if "not_compiled" not in row:
            alike.setdefault(json.dumps([row["on_npu"], row["on_cpu"], row["outputs"]]), []).append(row)
    rows = [
        [
            ", ".join(row["recipe"] for row in same),
            str(same[0]["on_npu"]),
            ", ".join(same[0]["on_cpu"]) or "nothing",
            f"{100 * max(one['max'] for one in same[0]['outputs']):.2f} %",
            f"{100 * max(one['mean'] for one in same[0]['outputs']):.3f} %",
        ]
        for same in alike.values()
    ]
    failed = [row for row in record["rows"] if "not_compiled" in row]
    return templates().get_template("rk3588.md.j2").render(record=record, rows=rows, failed=failed)


def pythons(record: dict[str, Any]) -> str:
    """The page on the Pythons and platforms of the workstation as Markdown."""
    wheels = {name: [row for row in record["wheels"] if row["platform"] == name] for name in record["platforms"]}
    without = {name: sorted({one for row in rows for one in row["without"]}) for name, rows in wheels.items()}
    named = {row["python"]: None for row in record["wheels"]}
    template = templates().get_template("pythons.md.j2")
    return template.render(record=record, wheels=wheels, without=without, pythons=list(named))


def local_privacy(record: dict[str, Any], federated: dict[str, Any], devices: dict[str, Any]) -> str:
    """The page on local differential privacy as Markdown."""
    template = templates().get_template("local-privacy.md.j2")
    return template.render(
        local=record,
        federated=federated,
        devices=devices,
        claims=local_page.claims(record["means"], federated),
        laws=list(local_page.law_rows(record)),
        unbiased=list(local_page.unbiased_rows(record)),
        ratios=list(local_page.ratio_rows(record["means"])),
        sgd=list(local_page.sgd_rows(federated)),
    )


def publishing(
    record: dict[str, Any],
    linked: dict[str, Any],
    keyed: dict[str, Any],
    counted: dict[str, Any],
    whole: dict[str, Any],
    attacked: dict[str, Any],
    cost: dict[str, Any],
    leaks: dict[str, Any],
    counted_again: dict[str, Any],
) -> str:
    """The page on publishing as Markdown."""
    template = templates().get_template("publishing.md.j2")
    return template.render(
        anonymity=record,
        linkage=linked,
        pseudonyms=keyed,
        newcomer=counted,
        publish=whole,
        attack=attacked,
        cost=cost,
        leaks=leaks,
        counted_again=counted_again,
        us_a_frame=statistics.median(cost["us_a_frame"]),
        held=publishing_page.held,
        claims=publishing_page.claims(record, counted),
        brute_force=list(publishing_page.brute_force(record)),
        losses=list(publishing_page.losses(record)),
        attacks=list(publishing_page.attacks(linked)),
        raw=publishing_page.accuracy(record["raw"]),
    )


def private_models(found: Mapping[str, private_page.Record]) -> str:
    """The page on private models and the attacks on them as Markdown."""
    environment = templates()
    environment.filters.update(figure=private_page.figure, signed=private_page.signed)
    functional = found["functional"]
    return environment.get_template("private-models.md.j2").render(
        names=list(found),
        claims=list(private_page.claims(found)),
        accounting=found["accounting"],
        study=found["case-study"],
        erms=private_page.on_tables(found),
        errors=private_page.errors,
        epsilons=private_page.epsilons,
        functional=functional,
        fits=private_page.fits,
        left_out={one: private_page.fit(functional, sensitive=False, calibration=one) for one in ("paper", "exact")},
        table_2=private_page.TABLE_2,
        inversion=found["inversion"],
        attackers=list(dict.fromkeys(row["attacker"] for row in found["inversion"]["rows"])),
        guesses=list(private_page.guesses(found["inversion"])),
        audit=found["audit"],
        differences=private_page.differences,
        membership=found.get("membership"),
        needed=found.get("erm-rows"),
        clipped=found.get("clipped-sums"),
        times=found.get("fit-times"),
        encoder=found.get("encoder"),
        codebook=found.get("codebook"),
        oracles=found.get("oracles"),
    )


def counting(record: dict[str, Any]) -> str:
    """The page on counting people as Markdown; its picture is drawn as well."""
    site = json.loads(accept_site.RESULT.read_text()) if accept_site.RESULT.is_file() else None
    template = templates().get_template("counting.md.j2")
    return template.render(record=record, rows=list(counting_page.rows(record)), site=site)


def codebooks(root: Path = Path()) -> dict[str, dict[str, Any]]:
    """The records of codebooks, by data set."""
    found = {data: root / CODEBOOKS.format(data) for data in table_2_page.PAPER}
    return {data: json.loads(path.read_text()) for data, path in found.items() if path.is_file()}


def _of(record: Path, target: Path, make: Callable[[dict[str, Any]], str]) -> Callable[[], None]:
    """Write one page from one record, where that is there."""

    def write() -> None:
        if record.is_file():
            write_atomic(target, make(json.loads(record.read_text())).encode())

    return write


def _figure_6() -> None:
    found = [json.loads(path.read_text()) for path in sorted(FIG_6.glob("*.json"))]
    write_atomic(FIG_6_PAGE, fig_6_page(found).encode())


def _local() -> None:
    records = (local.RESULT, local_sgd.RESULT, federated_devices.RESULT)
    if all(path.is_file() for path in records):
        found = (json.loads(path.read_text()) for path in records)
        write_atomic(LOCAL_PAGE, local_privacy(*found).encode())


def _publishing() -> None:
    if all(path.is_file() for path in PUBLISHING):
        found = (json.loads(path.read_text()) for path in PUBLISHING)
        write_atomic(PUBLISHING_PAGE, publishing(*found).encode())


def _private() -> None:
    if found := private_page.records():
        write_atomic(PRIVATE_PAGE, private_models(found).encode())


def _figure_7() -> None:
    _of(FIG_7, FIG_7_PAGE, fig_7_page)()
    if FIG_7.is_file():
        figure_7_page.draw(json.loads(FIG_7.read_text()), PICTURE)


def _power() -> None:
    _of(POWER, POWER_PAGE, power)()
    if POWER.is_file():
        power_page.draw(json.loads(POWER.read_text()), POWER_PICTURE)


def _counting() -> None:
    _of(count_people.RESULT, counting_page.PAGE, counting)()
    if count_people.RESULT.is_file():
        counting_page.draw(json.loads(count_people.RESULT.read_text()))


PAGES: dict[str, Callable[[], None]] = {
    "mnist": _of(RECORD, PAGE, page),
    "streams": _of(STREAMS, STREAMS_PAGE, streams_page),
    "figure-6": _figure_6,
    "figure-7": _figure_7,
    "power": _power,
    "unseen-people": _of(UNSEEN, UNSEEN_PAGE, unseen_page),
    "peers": _of(PEERS, PEERS_PAGE, peers),
    "motion": _of(motion.RESULT, motion_page.PAGE, motion_page.page),
    "guards": _of(guards.RESULT, GUARDS_PAGE, guards_page),
    "emission-times": _of(EMISSION, EMISSION_PAGE, emission_times),
    "recipe-times": _of(RECIPES, RECIPES_PAGE, recipe_times),
    "ethos-u": _of(ETHOS_U, ETHOS_U_PAGE, ethos_u),
    "rk3588": _of(RK3588, RK3588_PAGE, rk3588),
    "table-2": lambda: write_atomic(TABLE_2_PAGE, render_table_2(table_2_page.read(TABLE_2), codebooks()).encode()),
    "four-slices": lambda: write_atomic(FOUR_SLICES_PAGE, four_slices().encode()),
    "capture-loop": lambda: capture_loop_page.write(BENCHES, LOOP_PAGE),
    "codebooks": lambda: write_atomic(codebooks_page.PAGE, codebooks_page.page().encode()),
    "linear-cleaners": lambda: predictors_page.write_tables(PREDICTORS, CLEANERS_PAGE),
    "estimator": lambda: write_guide(BENCHES, ESTIMATOR_PAGE),
    "local-privacy": _local,
    "publishing": _publishing,
    "private-models": _private,
    "counting": _counting,
    "pythons": _of(workstation_pythons.RESULT, PYTHONS_PAGE, pythons),
    "strangers": _of(strangers.RESULT, STRANGERS_PAGE, of_strangers),
    "recipes": recipes_page.write,
    "boards": board_pages.write,
}


def main() -> None:
    """Write the pages that are named, or all."""
    script = Script(__file__, __doc__, "mnist streams")
    script.add_argument("pages", nargs="*", metavar="PAGE", help=f"of {', '.join(PAGES)}; left out: all")
    asked = script.parse_args()
    if unknown := [name for name in asked.pages if name not in PAGES]:
        script.error(f"pages of {', '.join(PAGES)} were expected; came {', '.join(unknown)}")
    for name in asked.pages or PAGES:
        PAGES[name]()


if __name__ == "__main__":
    run(main)
