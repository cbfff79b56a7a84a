"""The hierarchy of dates: days, and the weeks, months, quarters and years that they lie in."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Literal

from pydantic import model_validator

from edgeveil.trainer.publish.anonymity.rungs import ANY, Rung, Rungs

Unit = Literal["week", "month", "quarter", "year"]


class Dates(Rungs):
    """Days from ``first`` to ``last``, and what they lie in. No month, quarter or year is made of whole weeks, so
    nothing but ``*`` is above a week. The time of a day is never published."""

    ordered = True
    kind: Literal["dates"]
    first: date
    last: date
    units: list[Unit]

    @model_validator(mode="after")
    def _nested(self) -> Dates:
        order = ["month", "quarter", "year"]
        known = [order.index(unit) for unit in self.units if unit != "week"]
        if known != sorted(set(known)) or ("week" in self.units and self.units != ["week"]):
            raise ValueError('month, quarter and year in this order, or ["week"] alone: months do not hold whole weeks')
        if self.first >= self.last or self.last.year == date.max.year:
            raise ValueError(f"`first` before `last`, and both before the year {date.max.year}")
        return self

    def rungs(self, value: str) -> list[Rung] | None:
        """As ``Rungs``; ISO dates, or times of which the date is taken."""
        day = as_date(value)
        if day is None or not self.first <= day <= self.last:
            return None
        spans = (_span(day, unit) for unit in self.units)
        return [(day.isoformat(), 0.0), *((label, self._loss(*ends)) for label, *ends in spans), (ANY, 1.0)]

    def place(self, value: str) -> float:
        """As ``Rungs``."""
        return (datetime.fromisoformat(value).date() - self.first) / (self.last - self.first)

    def _loss(self, first: date, after: date) -> float:
        days = min(after - timedelta(1), self.last) - max(first, self.first)
        return days / (self.last - self.first)


def as_date(value: str) -> date | None:
    """The date of an ISO date or time, or None for another text."""
    try:
        return datetime.fromisoformat(value).date()
    except ValueError:
        return None


def _span(day: date, unit: Unit) -> tuple[str, date, date]:
    """The label of what a day lies in, its first day, and the day after it."""
    if unit == "week":
        monday = day - timedelta(day.weekday())
        year, week, _ = day.isocalendar()
        return f"{year}-W{week:02d}", monday, monday + timedelta(7)
    months = {"month": 1, "quarter": 3, "year": 12}[unit]
    begin = (day.month - 1) // months * months + 1
    end = begin + months
    label = {"month": f"{day:%Y-%m}", "quarter": f"{day.year}-Q{(begin + 2) // 3}", "year": f"{day.year}"}[unit]
    return label, date(day.year, begin, 1), date(day.year + (end > 12), end - 12 if end > 12 else end, 1)
