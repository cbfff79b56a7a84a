"""A page for each board, from its profile and the published table: no fact of a board is typed twice."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from edgeveil.devices.profiles import Profile
from edgeveil.devices.published import TABLE
from edgeveil.edge_runtime.device import FORMS


def page(profile: Profile) -> str:
    """The page of one board, as Markdown."""
    return "\n".join([f"# {profile.title}", "", "<!-- recorded: board -->", *_lines(profile), "<!-- end -->", ""])


def _lines(profile: Profile) -> Iterator[str]:
    system = profile.system
    yield f"Made from `devices/profiles/{profile.name}.toml` by `scripts/reproduce/pages/boards/board_pages.py`."
    yield ""
    yield "| | |"
    yield "| --- | --- |"
    models = ", ".join(f"`{one}`" for one in profile.models)
    yield f"| says that it is | {models or 'nothing; name the profile'} |"
    yield f"| image | {system}, {profile.architecture}, Python {profile.python} |"
    yield f"| artefacts | {', '.join(f'`{one}`' for one in profile.artefacts)} |"
    for backend in profile.backends:
        place = f" on the {backend.accelerator} (`--device {backend.device}`)" if backend.accelerator else ""
        driver = f", libedgetpu {' or '.join(backend.driver)}" if backend.driver else ""
        yield f"| interpreter | {backend.name} {backend.versions}{driver}{place} |"
    for install in profile.install:
        yield f"| install | {install.text()} |"
    yield f"| cameras | {', '.join(f'`{one}`' for one in profile.camera.sources)} |"
    for name, value in profile.service.environment.items():
        yield f"| environment | `{name}={value}` |"
    seconds = profile.service.watchdog_s
    yield f"| watchdog | {f'{seconds} s' if seconds else 'as its system sets it'} |"
    yield f"| sensors | {', '.join(profile.sensors)} |"
    yield ""
    commands = [f"edgeveil devices check --on ssh://USER@HOST --for {profile.name}"]
    if any(install.packages for install in profile.install if install.python == profile.python):
        commands.append(f"edgeveil wheels {profile.name} --out wheels")
    form = next((FORMS[backend.device] for backend in profile.backends if backend.device in FORMS), None)
    if form is not None and form.requantised:
        how = " --compiler-python PYTHON" if form.made[0] == "rknn" else ""
        commands.append(f"edgeveil export RUN --for {profile.name}{how} --out EXPORT")
        commands.append("edgeveil seal EXPORT --key KEY --out BUNDLE")
    commands.append(f"edgeveil flash BUNDLE --on ssh://USER@HOST --for {profile.name} --trust TRUST")
    yield from (f"{number}. `{command}`" for number, command in enumerate(commands, 1))
    yield ""
    yield "| fact | state |"
    yield "| --- | --- |"
    yield from (f"| {fact} | run |" for fact in profile.checked)
    yield from (f"| {fact} | unchecked |" for fact in profile.unchecked)
    rows = _published(profile)
    if rows:
        yield ""
        yield "Published by others ([sources](../reference/benchmarks.md#published-data)), not measured here:"
        yield ""
        yield "| network | input | precision | ms a frame | source |"
        yield "| --- | --- | --- | --- | --- |"
        yield from rows


def _published(profile: Profile) -> list[str]:
    """Rows of the published table that stand for this board, and those that its profile has beside them."""
    groups = {one.group for one in profile.calibration}
    with TABLE.open(newline="") as file:
        found = [row for row in csv.DictReader(file) if f"{row['device']}/{row['runtime']}" in groups]
    lines = {"| {model} | {input} | {precision} | {latency_ms} | {source} |".format(**row) for row in found}
    lines |= {f"| {p.network} | {p.input} | {p.precision} | {p.ms:g} | {p.source} |" for p in profile.published}
    return sorted(lines)
