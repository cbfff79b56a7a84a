"""Bad archives: what one ZIP reader would see and another would not, and forms that no bundle needs."""

from __future__ import annotations

import stat
import struct
import zlib

from edgeveil.edge_runtime.manifest.detector import MAX_BUNDLE_BYTES, MAX_MEMBERS
from tests.hostile_bundles.museum import entries, exhibit, exhibits, good, good_bytes
from tests.hostile_bundles.raw_zip import Entry, write
from tests.support import bundles

ARTEFACT = 2  # the third entry is an artefact


exhibits(
    None,
    ("truncated", "nothing", lambda: b""),
    ("truncated", "cut_in_first_header", lambda: good_bytes()[:17]),
    ("truncated", "cut_in_manifest", lambda: good_bytes()[:300]),
    ("truncated", "cut_before_directory", lambda: good_bytes()[: good_bytes().index(b"PK\x01\x02")]),
    ("truncated", "cut_in_directory", lambda: good_bytes()[: good_bytes().index(b"PK\x01\x02") + 60]),
)


@exhibit("truncated")
def cut_between_members() -> bytes:
    first = entries()[0]
    return good_bytes()[: 30 + len(first.name) + len(bundle_manifest())]


def bundle_manifest() -> bytes:
    data = good_bytes()
    size = struct.unpack_from("<I", data, 22)[0]
    return data[30 + 13 : 30 + 13 + size]


exhibits(
    None,
    ("truncated", "cut_in_last_record", lambda: good_bytes()[:-1]),
    ("not-a-bundle", "some_other_file", lambda: b"\x7fELF" + bytes(400)),
    ("no-manifest", "archive_of_nothing", lambda: write([])),
    ("leading-data", "data_in_front", lambda: b"#!/bin/sh\n" + good_bytes()),
)


@exhibit("leading-data")
def data_in_front_with_corrected_offsets() -> bytes:
    listed = entries()
    listed[0].before = b"#!/bin/sh\n"
    return write(listed)


@exhibit("trailing-data")
def data_behind() -> bytes:
    return good_bytes() + b"\n"


@exhibit("trailing-data")
def two_ends() -> bytes:
    data = good_bytes()
    return data + data[-22:]


@exhibit("trailing-data")
def another_archive_behind() -> bytes:
    return good_bytes() + write([Entry(b"artefacts/other.tflite", b"other")])


@exhibit("gap")
def bytes_between_members() -> bytes:
    listed = entries()
    listed[ARTEFACT].before = b"between"
    return write(listed)


@exhibit("gap")
def bytes_before_directory() -> bytes:
    return write(entries(), between=b"hidden bytes")


@exhibit("gap")
def bytes_between_directory_and_end() -> bytes:
    data = good_bytes()
    return data[:-22] + b"hidden" + data[-22:]


@exhibit("offset-mismatch")
def overlapping_members() -> bytes:
    """The directory has a member begin inside another one, where a whole second header may stand."""
    listed = entries()
    inner = write([Entry(listed[ARTEFACT].name, b"other bytes")])
    listed[ARTEFACT - 1].data += inner
    listed[ARTEFACT].central["offset"] = 40
    return write(listed)


@exhibit("offset-mismatch")
def swapped_offsets() -> bytes:
    listed = entries()
    first, second = (30 + len(entry.name) + len(entry.data) for entry in listed[:2])
    listed[0].central["offset"], listed[1].central["offset"] = first, 0
    assert second
    return write(listed)


@exhibit("directory-mismatch")
def member_without_entry() -> bytes:
    """A member that a reader from the front sees and one from the back does not."""
    listed = entries()
    data = write(listed)
    start = data.index(b"PK\x01\x02")
    last = data.rindex(b"PK\x01\x02")
    end = struct.pack("<HHHHIIH", 0, 0, len(listed) - 1, len(listed) - 1, last - start, start, 0)
    return data[:last] + b"PK\x05\x06" + end


@exhibit("directory-mismatch")
def entry_without_member() -> bytes:
    listed = entries()
    data = write(listed)
    start = data.index(b"PK\x01\x02")
    extra = data[data.rindex(b"PK\x01\x02") : -22]
    directory = data[start:-22] + extra
    end = struct.pack("<HHHHIIH", 0, 0, len(listed) + 1, len(listed) + 1, len(directory), start, 0)
    return data[:start] + directory + b"PK\x05\x06" + end


@exhibit("directory-mismatch")
def no_directory_at_all() -> bytes:
    data = good_bytes()
    return data[: data.index(b"PK\x01\x02")] + b"PK\x05\x06" + bytes(18)


exhibits(
    None,
    ("directory-mismatch", "wrong_count_in_end", lambda: write(entries(), here=1, total=1)),
    # Readers that add the difference to every offset would read from somewhere else.
    ("directory-mismatch", "wrong_offset_in_end", lambda: write(entries(), offset=0)),
)


@exhibit("header-mismatch")
def another_name_in_directory() -> bytes:
    listed = entries()
    listed[ARTEFACT].central["name"] = listed[ARTEFACT].name[:-1] + b"z"
    return write(listed)


@exhibit("header-mismatch")
def longer_name_in_directory() -> bytes:
    listed = entries()
    listed[ARTEFACT].central["name"] = listed[ARTEFACT].name + b"x"
    return write(listed)


@exhibit("header-mismatch")
def another_size_in_directory() -> bytes:
    listed = entries()
    listed[ARTEFACT].central.update(size=3, packed=3)
    return write(listed)


@exhibit("header-mismatch")
def another_crc_in_directory() -> bytes:
    listed = entries()
    listed[ARTEFACT].central["crc"] = 1
    return write(listed)


@exhibit("header-mismatch")
def another_method_in_directory() -> bytes:
    listed = entries()
    listed[ARTEFACT].central["method"] = 8
    return write(listed)


@exhibit("header-mismatch")
def extra_field_in_directory_only() -> bytes:
    listed = entries()
    listed[ARTEFACT].central["extra"] = b"\xff\xff\x00\x00"
    return write(listed)


@exhibit("header-mismatch")
def encrypted_flag_in_directory_only() -> bytes:
    listed = entries()
    listed[ARTEFACT].central["flags"] = 1
    return write(listed)


@exhibit("wrong-crc")
def wrong_crc() -> bytes:
    listed = entries()
    listed[ARTEFACT].both["crc"] = 1
    return write(listed)


@exhibit("wrong-crc")
def one_bit_lost_on_the_way() -> bytes:
    data = bytearray(good_bytes())
    data[data.index(bundles.EMPTY_TFLITE)] ^= 1
    return bytes(data)


@exhibit("compressed")
def compressed_member() -> bytes:
    listed = entries()
    packer = zlib.compressobj(wbits=-15)
    content = listed[ARTEFACT].data
    listed[ARTEFACT].both = {"method": 8, "size": len(content), "crc": zlib.crc32(content)}
    listed[ARTEFACT].data = packer.compress(content) + packer.flush()
    return write(listed)


@exhibit("encrypted")
def encrypted_flag() -> bytes:
    listed = entries()
    listed[ARTEFACT].both["flags"] = 1
    return write(listed)


@exhibit("data-descriptor")
def data_descriptor() -> bytes:
    """Sizes stand behind the data; where that ends is anybody's guess."""
    listed = entries()
    content = listed[ARTEFACT].data
    listed[ARTEFACT].both["flags"] = 8
    listed[ARTEFACT].local.update(crc=0, size=0, packed=0)
    listed[ARTEFACT].data += struct.pack("<4sIII", b"PK\x07\x08", zlib.crc32(content), len(content), len(content))
    listed[ARTEFACT].central.update(crc=zlib.crc32(content), size=len(content), packed=len(content))
    return write(listed)


@exhibit("flags")
def utf8_flag() -> bytes:
    listed = entries()
    listed[ARTEFACT].both["flags"] = 0x800
    return write(listed)


@exhibit("extra-field")
def extra_field() -> bytes:
    """An Info-ZIP Unicode path: some readers take the name from here."""
    listed = entries()
    other = b"artefacts/other.tflite"
    field = b"\x01" + struct.pack("<I", zlib.crc32(listed[ARTEFACT].name)) + other
    listed[ARTEFACT].both["extra"] = struct.pack("<HH", 0x7075, len(field)) + field
    return write(listed)


@exhibit("zip64")
def zip64_sizes() -> bytes:
    listed = entries()
    size = len(listed[ARTEFACT].data)
    extra = struct.pack("<HHQQ", 1, 16, size, size)
    listed[ARTEFACT].both.update(needed=45, size=0xFFFFFFFF, packed=0xFFFFFFFF, extra=extra)
    return write(listed)


@exhibit("zip64")
def zip64_end() -> bytes:
    """A second directory position that only readers of ZIP64 follow."""
    data = good_bytes()
    start, end = data.index(b"PK\x01\x02"), len(data) - 22
    record = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 9, 9, end - start, start)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1)
    return data[:end] + record + locator + data[end:]


exhibits(
    None,
    ("zip64", "zip64_counts_in_end", lambda: write(entries(), here=0xFFFF, total=0xFFFF)),
    ("comment", "comment_at_the_end", lambda: write(entries(), comment=b"hello")),
    # A reader that looks for the last end record finds one of an empty archive.
    ("comment", "comment_that_is_an_end", lambda: write(entries(), comment=b"PK\x05\x06" + bytes(18))),
)


@exhibit("comment")
def comment_of_a_member() -> bytes:
    listed = entries()
    listed[ARTEFACT].central["comment"] = b"hello"
    return write(listed)


@exhibit("multi-disk")
def several_disks() -> bytes:
    return write(entries(), disk=1)


@exhibit("multi-disk")
def member_on_another_disk() -> bytes:
    listed = entries()
    listed[ARTEFACT].central["disk"] = 1
    return write(listed)


@exhibit("link")
def symbolic_link() -> bytes:
    listed = entries()
    listed[ARTEFACT].data = b"/etc/passwd"
    listed[ARTEFACT].central.update(made_by=0x0314, external=(stat.S_IFLNK | 0o777) << 16)
    return write(listed)


@exhibit("attributes")
def executable_bit() -> bytes:
    listed = entries()
    listed[-1].central.update(made_by=0x0314, external=0o100755 << 16)
    return write(listed)


@exhibit("attributes")
def folder_attribute() -> bytes:
    listed = entries()
    listed[ARTEFACT].central["external"] = 0x10
    return write(listed)


@exhibit("attributes")
def text_attribute() -> bytes:
    """Some readers translate line ends in members that are marked as text."""
    listed = entries()
    listed[ARTEFACT].central["internal"] = 1
    return write(listed)


@exhibit("date")
def another_date() -> bytes:
    listed = entries()
    listed[ARTEFACT].both["date"] = 0x5D75
    return write(listed)


@exhibit("version")
def another_version_needed() -> bytes:
    listed = entries()
    listed[ARTEFACT].both["needed"] = 10
    return write(listed)


@exhibit("size-mismatch")
def two_sizes_though_stored() -> bytes:
    listed = entries()
    listed[ARTEFACT].both["size"] = 5
    return write(listed)


@exhibit("truncated")
def huge_declared_size() -> bytes:
    listed = entries()
    listed[ARTEFACT].both.update(size=0xFFFFFFFE, packed=0xFFFFFFFE)
    return write(listed)


exhibits(
    None,
    ("too-large", "larger_than_any_bundle", lambda: bytes(MAX_BUNDLE_BYTES + 1)),
    (
        "too-many-members",
        "too_many_members",
        lambda: write([Entry(b"golden/%d.npy" % number, b"") for number in range(MAX_MEMBERS + 1)]),
    ),
)


def _named(name: bytes) -> bytes:
    listed = entries()
    listed[ARTEFACT].both["name"] = name
    return write(listed)


exhibits(
    None,
    ("absolute-path", "absolute_path", lambda: _named(b"/etc/cron.d/edgeveil")),
    ("parent-path", "parent_path", lambda: _named(b"artefacts/../../etc/passwd")),
    ("backslash", "backslash_path", lambda: _named(b"artefacts\\..\\..\\evil.tflite")),
)


@exhibit("directory")
def directory_entry() -> bytes:
    listed = entries()
    listed.insert(ARTEFACT, Entry(b"artefacts/", b""))
    return write(listed)


exhibits(
    None,
    ("bad-name", "drive_letter", lambda: _named(b"c:artefacts/generator.tflite")),
    ("bad-name", "upper_case_name", lambda: _named(b"artefacts/Generator.tflite")),
    ("bad-name", "unicode_name", lambda: _named("artefacts/générateur.tflite".encode())),
    # Programs in C see a shorter name.
    ("bad-name", "name_with_zero_byte", lambda: _named(b"artefacts/generator.tflite\x00.txt")),
    ("bad-name", "hidden_file", lambda: _named(b"artefacts/.profile")),
    ("bad-name", "double_slash", lambda: _named(b"artefacts//generator.tflite")),
    ("bad-name", "newline_at_the_end_of_a_name", lambda: _named(b"artefacts/generator.tflite\n")),
    ("bad-name", "empty_name", lambda: _named(b"")),
    ("bad-name", "very_long_name", lambda: _named(b"artefacts/" + b"a" * 60000)),
)


@exhibit("duplicate-member")
def duplicate_member() -> bytes:
    listed = entries()
    listed.insert(ARTEFACT, Entry(listed[ARTEFACT].name, b"the other one"))
    return write(listed)


@exhibit("duplicate-member")
def two_manifests() -> bytes:
    listed = entries()
    return write([listed[0], *listed])


@exhibit("name-clash")
def member_inside_a_member() -> bytes:
    listed = entries()
    return write([*listed, Entry(listed[ARTEFACT].name + b"/inner", b"x")])


@exhibit("no-manifest")
def manifest_missing() -> bytes:
    return write(entries()[1:])


@exhibit("unsigned")
def signature_member_missing() -> bytes:
    listed = entries()
    return write([listed[0], *listed[2:]])


@exhibit("member-order")
def signature_behind_the_members() -> bytes:
    listed = entries()
    return write([listed[0], *listed[2:], listed[1]])


@exhibit("member-order")
def manifest_not_first() -> bytes:
    listed = entries()
    return write([listed[1], listed[0], *listed[2:]])


@exhibit("member-order")
def members_in_another_order() -> bytes:
    listed = entries()
    return write([*listed[:2], *reversed(listed[2:])])


exhibits(
    None,
    ("extra-member", "extra_member", lambda: write([*entries(), Entry(b"tables/more.npy", b"more")])),
    ("missing-member", "member_left_out", lambda: write(entries()[:-1])),
)


@exhibit("missing-member")
def member_renamed() -> bytes:
    manifest, members = good()
    return bundles.sealed(manifest, {name.replace("int8", "int9"): data for name, data in members.items()})


def _tampered(prefix: str) -> bytes:
    """One bit of one member is another, and every checksum of the archive is right again."""
    listed = entries()
    entry = next(entry for entry in listed if entry.name.decode().startswith(prefix))
    entry.data = bytes([entry.data[0] ^ 1]) + entry.data[1:]
    return write(listed)


exhibits(
    None,
    ("hash-mismatch", "tampered_artefact", lambda: _tampered("artefacts/")),
    ("hash-mismatch", "tampered_golden_vector", lambda: _tampered("golden/")),
    ("hash-mismatch", "tampered_privacy_card", lambda: _tampered("privacy/")),
    ("hash-mismatch", "tampered_runtime", lambda: _tampered("runtime/")),
)


@exhibit("hash-mismatch")
def tampered_table() -> bytes:
    manifest, members = bundles.numpy_example()
    manifest = bundles.with_members(manifest, members)
    table = bytearray(members["tables/means.npy"])
    table[-1] ^= 0x80
    return bundles.sealed(manifest, {**members, "tables/means.npy": bytes(table)})


@exhibit("size-mismatch")
def longer_artefact() -> bytes:
    listed = entries()
    listed[ARTEFACT].data += b"\x00"
    return write(listed)
