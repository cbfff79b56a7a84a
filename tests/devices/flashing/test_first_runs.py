"""A card that Raspberry Pi Imager set up: its first run for user and Wi-Fi runs, then EdgeVeil's; neither is lost."""

import subprocess

import pytest

from edgeveil.devices.flashing import sd_card
from edgeveil.devices.flashing.sd_card import MountedCard, write_card
from edgeveil.edge_runtime.errors import BadInput

LINE = "console=tty1 root=PARTUUID=1-02 rootwait quiet"
IMAGER = "systemd.run=/boot/firstrun.sh systemd.run_success_action=reboot systemd.unit=kernel-command-line.target"
# What Imager's script does besides its settings, as it does it: it removes itself, and its words from the line.
FIRSTRUN = """set +e
echo firstrun >> {boot}/order
rm -f {boot}/firstrun.sh {boot}/firmware/firstrun.sh
sed -i 's| systemd.run.*||g' {boot}/firmware/cmdline.txt
exit 0
"""
OURS = "import sys; open('{boot}/order', 'a').write('edgeveil\\n'); sys.exit({code})\n"


@pytest.fixture
def card(tmp_path):
    """A mounted boot partition at ``boot/firmware``, where a board has it."""
    folder = tmp_path / "boot/firmware"
    folder.mkdir(parents=True)
    (folder / "cmdline.txt").write_text(f"{LINE} {IMAGER}\n")
    (folder / "firstrun.sh").write_text(FIRSTRUN.format(boot=tmp_path / "boot"))
    return folder


def written(card, code=0):
    """What the command says; the card is written, with a first boot of EdgeVeil that ends with ``code``."""
    boot = card.parent
    files = {"run.sh": sd_card._RUN_SH.replace("/boot/", f"{boot}/").encode()}
    files["first_boot.py"] = OURS.format(boot=boot, code=code).encode()
    return write_card(MountedCard(card), files)


def boot(card):
    """One boot by the card's line: what it says is run."""
    line = (card / "cmdline.txt").read_text()
    assert f"{sd_card.TREE}/run.sh systemd.run_success_action=reboot" in line
    subprocess.run(["sh", str(card / sd_card.TREE / "run.sh")], check=True, timeout=20)
    return (card.parent / "order").read_text().split()


def test_imagers_first_run_is_chained_before_edgeveils(card):
    said = written(card)
    assert "/boot/firstrun.sh" in said[0]
    line = (card / "cmdline.txt").read_text()
    assert line == f"{LINE} {sd_card.RUN}\n"
    assert boot(card) == ["firstrun", "edgeveil"]
    assert (card / "cmdline.txt").read_text() == LINE + "\n", "the board boots as usual from then on"
    assert not (card / "firstrun.sh").exists()


def test_a_card_that_is_written_twice_still_knows_imagers(card):
    written(card)
    written(card)
    assert boot(card) == ["firstrun", "edgeveil"]


def test_a_power_cut_between_the_two_runs_edgeveils_at_the_next_boot(card):
    written(card)
    script = card / sd_card.TREE / "run.sh"
    whole = script.read_text()
    script.write_text(whole.replace("/usr/bin/python3", "exit 0\n/usr/bin/python3"))
    assert boot(card) == ["firstrun"]
    script.write_text(whole)
    assert boot(card) == ["firstrun", "edgeveil"]


def test_a_board_without_another_first_run_runs_edgeveils_alone(card):
    (card / "cmdline.txt").write_text(LINE + "\n")
    written(card, code=3)
    assert boot(card) == ["edgeveil"]
    assert (card / "cmdline.txt").read_text() == LINE + "\n"


@pytest.mark.parametrize(
    "words",
    [
        "systemd.run=/usr/bin/other",
        "systemd.run=/boot/a.sh systemd.run=/boot/b.sh",
        'systemd.run="/boot/a.sh more"',
        "systemd.run=/boot/a.sh systemd.unit=rescue.target",
        "systemd.unit=rescue.target",
        "systemd.run=/boot/$(reboot)",
    ],
)
def test_what_cannot_be_chained_is_one_sentence_and_nothing_is_changed(card, words):
    (card / "cmdline.txt").write_text(f"{LINE} {words}\n")
    with pytest.raises(BadInput, match=r"systemd\.run=/boot/firstrun\.sh"):
        written(card)
    assert (card / "cmdline.txt").read_text() == f"{LINE} {words}\n"
    assert not (card / sd_card.TREE).exists()
