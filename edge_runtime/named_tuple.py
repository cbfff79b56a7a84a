"""``typing.NamedTuple`` for what every start makes: each class of it costs a tenth of a millisecond less.

The standard one compiles a constructor for every class, and checks the types of its fields. Here all classes share one
constructor, which is slower to call: what is made for every frame takes the standard one.
"""

import operator
from typing import TYPE_CHECKING, Any, Dict, Tuple

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    class _Fields(type):
        """Makes a field of each name that a class body annotates, in order, with the value given there as default."""

        def __new__(cls, own_name: str, bases: Tuple[type, ...], body: Dict[str, Any]) -> type:
            fields = tuple(body.get("__annotations__", ()))
            if fields:
                body.update(_fields=fields, _field_defaults={name: body[name] for name in fields if name in body})
                body.update((name, property(operator.itemgetter(place))) for place, name in enumerate(fields))
            body["__slots__"] = ()
            return type.__new__(cls, own_name, bases, body)

    class NamedTuple(tuple, metaclass=_Fields):
        """A tuple whose items have names; ``class Point(NamedTuple)`` with annotations, as the standard one."""

        def __new__(cls, *values: Any, **named: Any) -> "NamedTuple":
            """Raises ``TypeError`` unless each field without a default gets a value, once."""
            rest = cls._fields[len(values) :]
            given = dict(cls._field_defaults, **named) if rest else named
            if len(values) > len(cls._fields) or not named.keys() <= set(rest) or not set(rest) <= given.keys():
                raise TypeError("{} has the fields {}".format(cls.__name__, ", ".join(cls._fields)))
            return tuple.__new__(cls, values + tuple(given[name] for name in rest))

        def __getnewargs__(self) -> Tuple[Any, ...]:
            return tuple(self)

        def __repr__(self) -> str:
            items = ("{}={!r}".format(*item) for item in zip(self._fields, self))
            return "{}({})".format(type(self).__name__, ", ".join(items))

        def _asdict(self) -> Dict[str, Any]:
            return dict(zip(self._fields, self))

        def _replace(self, **changes: Any) -> "NamedTuple":
            return type(self)(**dict(self._asdict(), **changes))
