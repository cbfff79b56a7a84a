"""card.html of a publication: one file, which nothing of the publication is loaded into but its statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgeveil.trainer.report.card_page import environment
from edgeveil.trainer.report.publication.facts import facts


def render(document: Mapping[str, Any]) -> str:
    """The page of a publication.json; every value is escaped."""
    return str(environment().get_template("publication.html").render(**facts(document)))
