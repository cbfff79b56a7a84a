"""The feeds that ``--from`` names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.manifest.manifest import Manifest
from edgeveil.trainer.collect.feeds.blocks import Feed
from edgeveil.trainer.collect.reporting import Reporting


def open_feeds(
    sources: Sequence[str], manifest: Manifest, reporting: Reporting, *, most: int | None, seconds: float | None
) -> list[Feed]:
    """A feed for each source, whose place is its number as a sender. Raises ``BadInput``."""
    return [_open(text, place, manifest, reporting, most, seconds) for place, text in enumerate(sources)]


def _open(
    text: str, place: int, manifest: Manifest, reporting: Reporting, most: int | None, seconds: float | None
) -> Feed:
    kind, _, rest = text.partition(":")
    main = manifest.outputs[0].name == reporting.output.name
    if kind == "npz" and rest:
        from edgeveil.trainer.collect.feeds.npz_feed import NpzFeed

        return NpzFeed(Path(rest), reporting.output, main, file=place)
    if kind == "csv" and rest:
        from edgeveil.trainer.collect.feeds.csv_feed import CsvFeed

        return CsvFeed(rest, reporting.output, main, file=place)
    if kind in ("mqtt", "mqtts"):
        from edgeveil.trainer.collect.feeds.mqtt_feed import MqttFeed
        from edgeveil.trainer.collect.feeds.records import Records

        if most is None and seconds is None:
            raise BadInput("A stream of reports has no end: say when to stop, with --reports N or --seconds S.")
        return MqttFeed(text, Records(manifest, reporting.output), seconds=seconds)
    raise BadInput(f"Reports were expected from mqtt://HOST/TOPIC, npz:FILE or csv:-; got {kind}:.")
