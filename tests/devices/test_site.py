"""``boards.toml``: a strict file, its boards by name, and the fleet file of earlier versions."""

import pytest

from edgeveil.devices.site import SiteBoard, find, load
from edgeveil.edge_runtime.errors import BadInput

WHOLE = """
parallel = 2
most_failures = 1
canary = "b"
[all]
profile = "workstation"
trust = "root"
sinks = ["mqtts://broker/{name}"]
[board.a]
address = "pi@a"
password_file = "a.password"
[board."b"]
address = "ssh://pi@b"
profile = "mine.toml"
source = "camera:0"
update = "https://updates.example"
source_credentials = "/srv/who"
[board.c]
address = "ssh://pi@c"
identity = "~/keys/c"
root = "/opt/edgeveil-c"
"""
OLD = """
[all]
trust = "root"
sink = ["mqtts://broker/{name}"]
[[board]]
name = "a"
target = "ssh://pi@a"
update_from = "dir:/srv"
"""


def site(folder, text=WHOLE):
    (folder / "boards.toml").write_text(text)
    return load(folder / "boards.toml")


def test_a_file_of_boards(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    found = site(tmp_path)
    assert [board.name for board in found.boards] == ["b", "a", "c"]
    assert (found.parallel, found.most_failures) == (2, 1)
    first, second, third = found.boards
    assert (first.profile, first.trust) == (str(tmp_path / "mine.toml"), tmp_path / "root")
    assert (first.wanted.sinks, first.wanted.update_from) == (("mqtts://broker/b",), "https://updates.example")
    assert (first.wanted.source, second.wanted.source) == ("camera:0", None)
    assert str(first.source_credentials) == "/srv/who"
    assert (second.address, second.connection.password_file) == ("ssh://pi@a", tmp_path / "a.password")
    assert (str(third.connection.identity), third.connection.root) == ("/home/ada/keys/c", "/opt/edgeveil-c")


def test_a_fleet_file_of_before_is_read_with_a_warning(tmp_path):
    (tmp_path / "hall.toml").write_text(OLD)
    said = []
    (board,) = load(tmp_path / "hall.toml", said.append).boards
    assert (board.name, board.address, board.wanted.update_from) == ("a", "ssh://pi@a", "dir:/srv")
    assert board.wanted.sinks == ("mqtts://broker/a",)
    assert "the next refuses it. Write [board.NAME] for [[board]]" in said[0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("parallel", "paralel", r"boards.toml, line 2: paralel is not a known key. Did you mean parallel\?"),
        ("parallel = 2", "parallel = 0", "line 2: parallel must be a number of boards at a time, from 1, and is 0"),
        ("parallel = 2", 'parallel = "2"', "must be a number of boards"),
        ('canary = "b"', 'canary = "d"', "the canary 'd' is none of the boards. Known here are a, b, c"),
        ("ssh://pi@c", "ssh://pi@c:port", "with a port of 1 to 65535"),
        ("ssh://pi@c", "ssh://pi:secret@c", "board.c.address holds a password: name a file by password_file"),
        ("[board.c]", '[board."c d"]', "line 18: board.c d must be letters, digits"),
        ('address = "pi@a"', "", "line 9: board.a.address is missing; it must be user@host, an alias"),
        (
            'source = "camera:0"',
            "frames = 0",
            "line 15: board.b.frames must be a number of frames for the trial, from 1",
        ),
        ('source = "camera:0"', "service = 1", "must be false to install no service"),
        ('source = "camera:0"', "report_logs = true", "report_logs was removed .*baecb1ef"),
        ('source = "camera:0"', 'report_to = "mqtts://broker/c"', "report_to was removed .*TOPIC/status"),
        ('profile = "workstation"', 'report_to = "mqtts://broker/{name}"', "report_to was removed"),
        ('source = "camera:0"', 'soruce = "camera:0"', r"line 15: board.b.soruce is not .* Did you mean source\?"),
        ("password_file =", "password =", r"line 11: board.a.password is not .* Did you mean password_file\?"),
        ("[all]", "[al]", r"line 5: al is not a known key. Did you mean all\?"),
        ("[all]", "[all", "is not TOML"),
    ],
)
def test_what_is_not_as_it_must_be_is_named(tmp_path, old, new, said):
    with pytest.raises(BadInput, match=said):
        site(tmp_path, WHOLE.replace(old, new, 1))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OLD + OLD[OLD.index("[[") :], "two boards have the name 'a'"),
        (OLD.replace('name = "a"', ""), r"board\[0\].name is missing"),
        (OLD.replace("target", "targt"), r"board.a.targt is not a known key"),
        (
            WHOLE.replace("pi@c", "pi@a").replace('root = "/opt/edgeveil-c"', ""),
            "a and c have the same address and root",
        ),
    ],
)
def test_boards_that_are_not_told_apart(tmp_path, text, said):
    with pytest.raises(BadInput, match=said):
        site(tmp_path, text)


def test_a_board_is_found_by_name_by_address_and_by_alias(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(BadInput, match=r"no board 'a': boards.toml is not here, and ~/.ssh/config has no such host"):
        find("a", None)
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text("Host d\nHost a\n")
    assert find("a", None).address == "ssh://a"
    site(tmp_path)
    assert (find("a", None).address, find("a", None).connection.ask) == ("ssh://pi@a", True)
    assert find("ssh://pi@a", None) == find("pi@a", None) == find("a", None)
    assert find("d", tmp_path / "boards.toml") == SiteBoard("d", "ssh://d", find("a@z", None).connection)
    assert find("pi@z:22", None).address == "ssh://pi@z:22"
    assert find("image:card.img", None).address == "image:card.img"
    with pytest.raises(BadInput, match=r"boards.toml has no board 'B'. Did you mean b\?"):
        find("B", None)
    with pytest.raises(BadInput, match=r"The file of boards .* cannot be read"):
        find("a", tmp_path / "none.toml")


def test_what_a_flash_needs_is_said_with_where_it_goes(tmp_path):
    board = site(tmp_path, '[board.a]\naddress = "pi@a"\n').boards[0]
    with pytest.raises(BadInput, match="a: trust is missing; give --trust, or write trust in boards"):
        board.require("trust")
    with pytest.raises(BadInput, match="a: profile is missing; give --for,"):
        board.require("profile")


def test_the_commands_of_a_profile_of_ones_own_run_where_the_file_of_boards_allows_them(tmp_path):
    (tmp_path / "boards.toml").write_text(
        '[board.a]\naddress = "pi@a"\nprofile = "mine.toml"\nallow_commands = true\n[board.b]\naddress = "pi@b"\n'
    )
    allowed, other = (find(name, tmp_path / "boards.toml") for name in "ab")
    assert (allowed.allow_commands, other.allow_commands) == (True, False)
