"""Hierarchies of values, as a plan writes them: ranges, cuts, dates, prefixes, and trees of names.

Level 0 is the value itself and the last level is ``*``, one label for all. Each level between joins whole labels of the
level before it; a hierarchy that would not is refused when it is read. The loss of a label is its extent in the domain
that the plan states (normalised certainty penalty: Xu et al., "Utility-based anonymization", 2006): 0 for a single
value, 1 for ``*``; m of M names lose (m - 1) / (M - 1).
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from edgeveil.trainer.publish.anonymity.date_spans import Dates
from edgeveil.trainer.publish.anonymity.name_groups import Prefixes, Tree
from edgeveil.trainer.publish.anonymity.number_ranges import Cuts, Ranges

Hierarchy = Annotated[Ranges | Cuts | Dates | Prefixes | Tree, Field(discriminator="kind")]
