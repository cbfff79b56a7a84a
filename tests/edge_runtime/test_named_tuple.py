"""Our NamedTuple beside the standard one."""

import copy
import pickle
import typing

import pytest

from edgeveil.edge_runtime import named_tuple


class Ours(named_tuple.NamedTuple):
    """With one default, a property and a method."""

    name: str
    size: tuple[int, ...]
    unit: str | None = None

    @property
    def area(self):
        return self.size[0] * self.size[1]

    def scaled(self, by):
        return self._replace(size=tuple(by * length for length in self.size))


class Standard(typing.NamedTuple):
    name: str
    size: tuple[int, ...]
    unit: str | None = None


class Named(Ours):
    """A further method, the same fields."""

    def shout(self):
        return self.name.upper()


@pytest.mark.parametrize(
    ("values", "named"),
    [(("a", (2, 3)), {}), (("a", (2, 3), "m"), {}), ((), {"name": "a", "size": (2, 3)}), (("a",), {"size": ()})],
)
def test_it_is_made_and_read_as_the_standard_one(values, named):
    ours, standard = Ours(*values, **named), Standard(*values, **named)
    assert ours == standard == tuple(standard)
    assert hash(ours) == hash(standard)
    assert (ours.name, ours.size, ours.unit) == (standard.name, standard.size, standard.unit)
    assert ours._asdict() == standard._asdict()
    assert ours._fields == standard._fields
    assert ours._field_defaults == standard._field_defaults
    assert repr(ours) == repr(standard).replace("Standard", "Ours")
    assert ours._replace(unit="mm") == standard._replace(unit="mm")


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ((), {}),
        (("a",), {}),
        (("a", (), None, 1), {}),
        (("a", ()), {"name": "b"}),
        (("a", ()), {"colour": "red"}),
        (("a", (), None), {"colour": "red"}),
        (("a", (), None), {"unit": "m"}),
    ],
)
def test_too_few_too_many_and_unknown_values_are_refused_as_there(values, named):
    for kind in (Standard, Ours):
        with pytest.raises(TypeError):
            kind(*values, **named)
    with pytest.raises((TypeError, ValueError)):
        Ours("a", ())._replace(colour="red")


def test_it_cannot_be_changed_and_has_no_room_for_more():
    one = Ours("a", (2, 3))
    for name in ("size", "colour"):
        with pytest.raises(AttributeError):
            setattr(one, name, (1,))


def test_it_is_copied_and_pickled_and_has_properties_and_methods():
    one = Ours("a", (2, 3), "m")
    for again in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):  # noqa: S301 - its own bytes
        assert again == one
        assert type(again) is Ours
    assert one.area == 6
    assert one.scaled(2) == Ours("a", (4, 6), "m")
    assert type(one.scaled(2)) is Ours
    assert Named("a", ()).shout() == "A"
    assert Named("a", ())._fields == Ours._fields
