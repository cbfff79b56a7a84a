"""The walk from an empty machine types what the page says, in one shell, and stops where a command fails."""

import json
import subprocess

import pytest

from scripts.reproduce.counting import counting_page, from_empty
from tests.support.checkout import ROOT


def test_the_commands_are_those_of_the_page():
    found = from_empty.commands((ROOT / from_empty.PAGE).read_text())
    assert found[0] == "python3 -m venv venv && . venv/bin/activate"
    assert found[1].startswith("pip install ")
    assert found[-1].startswith("edgeveil-edge run hall.veil ")
    lines, names = from_empty.with_fetching(found, ROOT)
    assert [line for line, name in zip(lines, names, strict=True) if name != from_empty.FETCH] == found
    assert lines[1].startswith(f"pip download --quiet --dest {ROOT} ")


def shell(tmp_path, *lines):
    """The exit code of such a shell, how many numbers it gave of each command, and what these said."""
    words = ["bash", "-c", from_empty.script(lines, tmp_path / "log")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    return done.returncode, [len(line.split()) for line in done.stdout.splitlines()], (tmp_path / "log").read_text()


def test_a_setting_of_one_command_holds_for_the_next_and_each_has_its_seconds(tmp_path):
    code, numbers, said = shell(tmp_path, "A=1 && cd /", "echo $A $PWD", "echo last")
    assert (code, said) == (0, "1 /\nlast\n")
    assert numbers == [3, 3, 1]  # of the last that it begins


@pytest.mark.parametrize("fails", ["sh -c 'exit 7'", "true && sh -c 'exit 7'"])
def test_a_command_that_fails_ends_the_walk(fails, tmp_path):
    code, numbers, said = shell(tmp_path, "echo first", fails, "echo last")
    assert (code, said) == (7, "first\n")
    assert numbers == [3, 3]


def test_the_table_has_the_processor_in_brackets_and_no_time_of_what_runs_on():
    steps = [
        {"step": from_empty.FETCH, "wall_s": 120.0, "processor_s": 60.0},
        {"step": "edgeveil-edge run", "wall_s": None},
        {"step": from_empty.HOME_ASSISTANT, "wall_s": 90.0},
    ]
    assert list(counting_page.steps_of(steps)) == [
        (from_empty.FETCH, "2.0 (1.0)"),
        ("`edgeveil-edge run`", "runs on"),
        (from_empty.HOME_ASSISTANT, "1.5"),
    ]


def test_on_record_are_the_commands_of_the_page_and_a_count_that_was_shown():
    record = json.loads((ROOT / from_empty.RESULT).read_text())
    typed = [one["step"] for one in record["steps"] if one["step"] not in (from_empty.FETCH, from_empty.HOME_ASSISTANT)]
    assert typed == from_empty.commands((ROOT / from_empty.PAGE).read_text())
    states = {name.partition("hall_door_")[2]: state for name, state in record["states"].items()}
    assert int(states["line_door_in"]) + int(states["line_door_out"]) > 0
    assert states["state"] == "running"
