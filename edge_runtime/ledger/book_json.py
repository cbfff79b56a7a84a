"""A ledger as bytes: one strict JSON object with a CRC-32 over all the rest, in canonical spelling."""

import re
import zlib
from typing import Any, Dict

from edgeveil.edge_runtime.formats import strict_json
from edgeveil.edge_runtime.ledger.book import DEVICE, Account, Book

SCHEMA = 1
MOST_BYTES = 1 << 24  # some 100,000 units
_NAME = re.compile(DEVICE + "|[0-9a-f]{32}")
_HEX = re.compile("[0-9a-f]{64}")
_KEYS = {"crc", "ledger", "schema"}


def encode(book: Book) -> bytes:
    """The bytes of a ledger."""
    accounts = {name: [one.total, one.last_s, one.periods] for name, one in book.accounts.items()}
    document = {"schema": SCHEMA, "ledger": dict(book._asdict(), accounts=accounts)}
    rest = strict_json.dumps(document)
    # Sorted, the CRC's key comes first.
    return b'{"crc":%d,' % zlib.crc32(rest) + rest[1:] + b"\n"


def decode(data: bytes) -> Book:
    """The ledger in these bytes. Raises ``ValueError`` for anything that ``encode`` did not write."""
    try:
        document: Any = strict_json.loads(data)
        if set(document) != _KEYS or document["schema"] != SCHEMA or set(document["ledger"]) != set(Book._fields):
            raise ValueError("other keys")
        accounts: Dict[str, Account] = {}
        for name, (total, last_s, periods) in document["ledger"].pop("accounts").items():
            spans = {length: (begin, spent) for length, (begin, spent) in periods.items()}
            _check(_NAME.fullmatch(name) and all(repr(float(length)) == length for length in spans))
            _check_whole(total, last_s, *[number for span in spans.values() for number in span])
            accounts[name] = Account(total, last_s, spans)
        book = Book(accounts=accounts, **document["ledger"])
        _check_whole(book.number, book.lifetime, book.on_s, book.counted_s)
        _check(type(book.boot) is str and _HEX.fullmatch(book.machine) and _HEX.fullmatch(book.key))
        _check(book.lifetime == sum(account.total for account in accounts.values()))
    except (TypeError, AttributeError, KeyError, RecursionError) as error:
        raise ValueError("no ledger") from error
    _check(encode(book) == data)  # its CRC too
    return book


def _check_whole(*numbers: Any) -> None:
    _check(all(type(number) is int and number >= 0 for number in numbers))


def _check(right: Any) -> None:
    if not right:
        raise ValueError("no ledger")
