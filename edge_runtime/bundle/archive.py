"""The bytes of a bundle as an archive: a ZIP file of which there is exactly one spelling.

A ZIP file says most things twice (in front of each member and in the directory at the end), may hold bytes that no
entry speaks of, and is read from the front by some programs and from the back by others; attacks on signed archives
live on that difference. So this reader takes a tiny part of the format and every byte of it is accounted for: it goes
through the file once from byte 0, each header field is either the one constant allowed or follows from a member's name
and bytes, and it ends where the file ends. Hence ``pack(read_archive(data)) == data`` for all data that it accepts, and
every other ZIP reader sees the same members in them.

Nothing is trusted here and nothing is verified but form: signature and hashes are the matter of ``bundle.py``.
"""

import binascii
import stat
import struct
from typing import List, NamedTuple, NoReturn, Tuple

from edgeveil.edge_runtime.errors import BundleRefused
from edgeveil.edge_runtime.manifest.detector import MAX_BUNDLE_BYTES, MAX_MEMBERS, MAX_NAME, checked_name

LOCAL, CENTRAL, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
ZIP64 = (b"PK\x06\x06", b"PK\x06\x07")
VERSION = 20  # "made by" 2.0 on FAT (so that no file modes exist), and needed to extract: what common writers put
DATE = 1 << 5 | 1  # 1980-01-01 as MS-DOS counts
_LOCAL = struct.Struct("<HHHHHIIIHH")
_CENTRAL = struct.Struct("<HHHHHHIIIHHHHHII")
_END = struct.Struct("<HHHHIIH")


class _Header(NamedTuple):
    """What both headers of a member say of it, in the order in which both say it."""

    needed: int
    flags: int
    method: int
    time: int
    date: int
    crc: int
    packed: int
    size: int
    name_length: int
    extra_length: int


class _Entry(NamedTuple):
    header: _Header
    name: bytes
    offset: int


def read_archive(data: bytes) -> List[Tuple[str, bytes]]:
    """The members (name, bytes) in file order. Raises ``BundleRefused`` unless ``pack`` makes ``data`` of them."""
    if len(data) > MAX_BUNDLE_BYTES:
        _refuse("too-large", "it has {} bytes and {} are the most allowed".format(len(data), MAX_BUNDLE_BYTES))
    _check_beginning(data)
    cursor = _Cursor(data)
    members: List[Tuple[str, bytes]] = []
    entries: List[_Entry] = []
    while cursor.next_signature(LOCAL):
        if len(entries) == MAX_MEMBERS:
            _refuse("too-many-members", "it has more than {} members".format(MAX_MEMBERS))
        entry, content = _read_member(cursor)
        members.append((entry.name.decode("ascii"), content))
        entries.append(entry)
    _check_distinct([name for name, _ in members])
    start = cursor.place
    _read_directory(cursor, entries)
    _read_end(cursor, len(entries), start)
    return members


def read_first(data: bytes, count: int) -> List[Tuple[str, bytes]]:
    """At most ``count`` members from the beginning of an archive, of which ``data`` may be a part.

    Raises ``BundleRefused`` where they are not as ``read_archive`` takes them, or not all within ``data``.
    """
    _check_beginning(data)
    cursor = _Cursor(data)
    members: List[Tuple[str, bytes]] = []
    while len(members) < count and cursor.next_signature(LOCAL):
        entry, content = _read_member(cursor)
        members.append((entry.name.decode("ascii"), content))
    return members


def _check_beginning(data: bytes) -> None:
    if not LOCAL.startswith(data[:4]) and data[:4] != END:
        where = data.find(LOCAL)
        if where > 0:
            _refuse("leading-data", "{} bytes stand in front of the first member".format(where))
        _refuse("not-a-bundle", "it does not begin as one")


def _read_member(cursor: "_Cursor") -> Tuple[_Entry, bytes]:
    """The member whose signature the cursor has just passed."""
    offset = cursor.place - 4
    header = _Header(*cursor.unpack(_LOCAL))
    raw_name = cursor.take(min(header.name_length, MAX_NAME + 1))
    _check_header(header, raw_name)
    name = checked_name(raw_name)
    content = cursor.take(header.size)
    if binascii.crc32(content) & 0xFFFFFFFF != header.crc:
        _refuse("wrong-crc", "the bytes of {} do not have the checksum its header states".format(name))
    return _Entry(header, raw_name, offset), content


def pack(members: List[Tuple[str, bytes]]) -> bytes:
    """The one archive of these members (name, bytes), in this order. Checks nothing: ``read_archive`` does."""
    front, directory = bytearray(), bytearray()
    for name, content in members:
        raw_name = name.encode("ascii")
        crc, size = binascii.crc32(content) & 0xFFFFFFFF, len(content)
        header = (VERSION, 0, 0, 0, DATE, crc, size, size, len(raw_name), 0)
        directory += CENTRAL + _CENTRAL.pack(VERSION, *header + (0, 0, 0, 0, len(front))) + raw_name
        front += LOCAL + _LOCAL.pack(*header) + raw_name + content
    end = END + _END.pack(0, 0, len(members), len(members), len(directory), len(front), 0)
    return bytes(front + directory + end)


class _Cursor(object):
    """A place in the data that only moves forward and never past the end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        if count > len(self.data) - self.place:
            _refuse("truncated", "it ends after {} bytes, in the middle of something".format(len(self.data)))
        self.place += count
        return self.data[self.place - count : self.place]

    def unpack(self, layout: struct.Struct) -> Tuple[int, ...]:
        """The next bytes as the numbers of ``layout``."""
        return layout.unpack(self.take(layout.size))

    def next_signature(self, wanted: bytes) -> bool:
        """Step over the next four bytes if they are ``wanted``; refuse what can be no signature at all."""
        signature = self.take(4)
        if signature == wanted:
            return True
        if signature in ZIP64:
            _refuse("zip64", "it uses the ZIP64 format, which no bundle needs")
        if signature not in (LOCAL, CENTRAL, END):
            _refuse("gap", "the bytes from {} on belong to no member".format(self.place - 4))
        self.place -= 4
        return False


def _check_header(header: _Header, raw_name: bytes) -> None:
    """Every field that is a constant. The order is from the most telling to the least."""
    shown = ascii(raw_name[:MAX_NAME].decode("latin-1"))
    if header.flags & 1:
        _refuse("encrypted", "the member {} is encrypted".format(shown))
    if header.flags & 8:
        _refuse("data-descriptor", "the member {} states its size behind its data".format(shown))
    if header.flags:
        _refuse("flags", "the member {} has flags {:#x} where 0 is expected".format(shown, header.flags))
    if header.method:
        _refuse("compressed", "the member {} is compressed (method {}), not stored".format(shown, header.method))
    if header.needed >= 45 or 0xFFFFFFFF in (header.packed, header.size):
        _refuse("zip64", "the member {} uses the ZIP64 format, which no bundle needs".format(shown))
    if header.extra_length:
        _refuse("extra-field", "the member {} has an extra field".format(shown))
    if header.packed != header.size:
        _refuse("size-mismatch", "the member {} states two sizes, {} and {}".format(shown, header.packed, header.size))
    if (header.time, header.date) != (0, DATE):
        _refuse("date", "the member {} has a date other than 1980-01-01".format(shown))
    if header.needed != VERSION:
        _refuse("version", "the member {} asks for version {}, not {}".format(shown, header.needed, VERSION))


def _check_distinct(names: List[str]) -> None:
    """No name twice, and none that is also the folder of another: both could be read in two ways."""
    files = set()
    for name in names:
        if name in files:
            _refuse("duplicate-member", "it has two members called {}".format(name))
        files.add(name)
    for name in names:
        parts = name.split("/")
        for depth in range(1, len(parts)):
            if "/".join(parts[:depth]) in files:
                _refuse("name-clash", "the member {} lies in a member, not in a folder".format(name))


def _read_directory(cursor: _Cursor, entries: List[_Entry]) -> None:
    """The directory must say of each member, in the same order, what stands in front of the member itself."""
    for number, member in enumerate(entries):
        if not cursor.next_signature(CENTRAL):
            _refuse("directory-mismatch", "{} members, but the directory names {}".format(len(entries), number))
        fields = cursor.unpack(_CENTRAL)
        made_by, header = fields[0], _Header(*fields[1:11])
        comment, disk, internal, external, offset = fields[11:]
        for what, here, own in zip(_Header._fields, header, member.header):
            if here != own:
                _refuse("header-mismatch", "the directory's {} of member {} is not its own".format(what, number))
        if cursor.take(header.name_length) != member.name:
            _refuse("header-mismatch", "the directory's name of member {} is not its own".format(number))
        if offset != member.offset:
            problem = "the directory has member {} at {}, it is at {}"
            _refuse("offset-mismatch", problem.format(number, offset, member.offset))
        if comment:
            _refuse("comment", "member {} has a comment".format(number))
        if disk:
            _refuse("multi-disk", "member {} is said to be on another disk".format(number))
        if stat.S_ISLNK(external >> 16):
            _refuse("link", "member {} is a link".format(number))
        if internal or external or made_by != VERSION:
            _refuse("attributes", "member {} has file attributes".format(number))


def _read_end(cursor: _Cursor, count: int, start: int) -> None:
    length = cursor.place - start
    if not cursor.next_signature(END):
        _refuse("directory-mismatch", "the directory names more members than the {} there are".format(count))
    disk, first_disk, here, total, size, offset, comment = cursor.unpack(_END)
    if 0xFFFF in (disk, first_disk, here, total) or 0xFFFFFFFF in (size, offset):
        _refuse("zip64", "it uses the ZIP64 format, which no bundle needs")
    if disk or first_disk:
        _refuse("multi-disk", "it is said to be one of several disks")
    if (here, total, size, offset) != (count, count, length, start):
        _refuse("directory-mismatch", "its last record does not describe its directory")
    if comment:
        _refuse("comment", "it has a comment")
    if cursor.place != len(cursor.data):
        _refuse("trailing-data", "{} bytes stand behind its end".format(len(cursor.data) - cursor.place))


def _refuse(reason: str, what: str) -> NoReturn:
    message = "This is no bundle that EdgeVeil made: {}. Copy it again, or seal it again.".format(what)
    raise BundleRefused(reason, message)
