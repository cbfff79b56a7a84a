"""The commands: every one has an example and words for each of its options, and a flag is spelled one way."""

import json
import os
import re
import subprocess
import sys
from collections import defaultdict

import pytest
import typer.main

from edgeveil import __version__
from edgeveil.edge_runtime.cli import main as edge
from edgeveil.edge_runtime.errors import BadInput
from edgeveil.trainer.cli import main
from edgeveil.trainer.cli.tree import AUDIT, BOTH, GONE, LAST, MOVED, MOVED_OPTIONS, RUNTIME, app, modern
from edgeveil.trainer.recipe import messages
from edgeveil.trainer.recipe.schema import ALIASES, Recipe
from tests.support.small_runs import small_recipe

# What is said of such a flag is the same in every command that has it.
SHARED = {"--no-passphrase", "--run"}


def commands(group=None, name=""):
    """Every command of ``edgeveil`` by its words, such as ``trust init``."""
    group = group or typer.main.get_command(main.app)
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name}{word} ")
        elif word == AUDIT:
            yield name.strip(), command
        else:
            yield f"{name}{word}", command


def flags():
    """(command, flag, help) of every option of every command."""
    for name, command in commands():
        for option in command.params:
            if option.opts[0].startswith("--"):
                yield name, option.opts[0], option.help


def test_every_command_has_an_example_that_names_it_and_words():
    for name, command in commands():
        # `edgeveil fleet FILE flash`: the file stands between.
        assert all(word in command.epilog for word in ("Example", "edgeveil", *name.split())), name
        assert command.help.strip().splitlines()[0].endswith((".", ":")) or "." in command.help, name


def test_every_option_and_argument_has_words():
    for name, command in commands():
        for one in command.params:
            assert one.help, f"{name} {one.name}"


def test_a_shared_flag_says_the_same_everywhere():
    said = defaultdict(set)
    for _, flag, text in flags():
        said[flag].add(text)
    assert set(said) >= SHARED
    assert {flag: texts for flag, texts in said.items() if flag in SHARED and len(texts) > 1} == {}


def test_what_means_the_same_is_one_flag():
    spelled = defaultdict(set)
    for _, flag, text in flags():
        spelled[text].add(flag)
    assert {text: names for text, names in spelled.items() if len(names) > 1} == {}


def test_a_key_is_made_alike_everywhere_and_a_passphrase_is_no_option():
    has = defaultdict(set)
    for name, flag, _ in flags():
        has[flag].add(name)
    assert has["--no-passphrase"] == {"key new", "trust init", "pseudonym keygen"}
    assert not any("passphrase" in flag for flag in set(has) - {"--no-passphrase"})


@pytest.mark.parametrize("more", [" x", "=x", " --help"])
def test_what_was_removed_is_refused_by_name_with_what_replaces_it(edgeveil, more):
    said = {}
    for words in GONE:
        typed = words.replace("fleet", "fleet hall.toml") + (more if more != "=x" or "--" in words else "")
        said[words] = edgeveil(*typed.split())
    assert said == {words: (2, "", f"error: edgeveil {words}: {instead}.\n") for words, instead in GONE.items()}


def test_every_sentence_about_what_was_removed_names_the_commit_and_nothing_that_is_there():
    assert all(
        re.search("baecb1ef|set EDGEVEIL_JOBS|give --|leave it out|boards.toml", one) and ". " not in one
        for one in (*GONE.values(), *messages.GONE.values())
    )
    assert not set(typer.main.get_command(main.app).commands) & set(GONE)


@pytest.mark.parametrize("change", [{"of": "gradient"}, {"loss": "logistic"}, {"clip": 1.0}])
def test_a_deleted_recipe_key(change, tmp_path):
    section = {"kind": "local", "of": "reading", "mechanism": "duchi-linf", "epsilon": 1.0, **change}
    with pytest.raises(BadInput, match=r"training by rounds over MQTT was deleted.*collect.*baecb1ef") as caught:
        small_recipe(tmp_path / "x.npz", perturber=section)
    assert f"`perturber.{next(iter(change))}`" in str(caught.value)


def test_another_unknown_option_or_verb_is_refused_as_usual(edgeveil):
    for typed in (["flash", "--report"], ["fleet", "hall.toml", "accepts"], ["accepts"]):
        code, _, err = edgeveil(*typed)
        assert (code, "baecb1ef" in err, "No such" in err) == (2, False, True)


def test_the_version_is_said(edgeveil):
    assert edgeveil("--version") == (0, f"edgeveil {__version__}\n", "")


@pytest.mark.parametrize("verb", [*RUNTIME, *BOTH])
def test_a_command_of_the_runtime_says_so_with_the_whole_line(edgeveil, verb):
    code, out, err = edgeveil(verb, "mine.veil", "--trust", "keys")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: `edgeveil {verb}` is a command of the edge runtime")
    assert err.endswith(f"edgeveil-edge {verb} mine.veil --trust keys\n")


def test_the_runtimes_own_commands_are_those_that_edgeveil_lacks():
    (choices,) = (set(one.choices) for one in edge._parser()._actions if one.choices)
    assert {*RUNTIME, *BOTH} == choices - set(typer.main.get_command(app).commands) - set(MOVED) | set(BOTH)


def test_the_option_slots_are_few():
    """--json and --help, which are of every verb, are not counted."""
    assert sum(1 for _ in flags()) <= 200


def test_every_verb_that_prints_facts_has_json():
    """All do but those whose output is a log or nothing."""
    without = {name for name, command in commands() if command.json is None}
    assert without == {"board logs", "board start", "board stop", "ui"}
    assert all(command.json.opts == ["--json"] for _, command in commands() if command.json)


def test_an_old_spelling_is_taken_with_a_warning_that_names_the_new_one():
    for old in (*MOVED, *MOVED_OPTIONS):
        verb, _, option = old.rpartition(" ") if "--" in old else (old, "", "")
        words, notes, variables = modern([*(verb or "seal").split(), "it", *([option] if option else []), "value"])
        assert len(notes) == 1, old
        assert re.search(f"{old} is now .*{LAST} refuses it", notes[0])
        command = typer.main.get_command(app)
        for word in words:
            command = getattr(command, "commands", {}).get(word, command)
        names = {name for one in command.params for name in one.opts} | {"", "--json"}
        assert {word for word in words if word.startswith("--")} <= names, old
        assert variables == {} or list(variables.values()) == ["value"], old
        assert modern(words) == (words, [], {})


def test_recipes_to_compare_with_stand_behind_all(edgeveil):
    code, out, err = edgeveil("recipe", "list")
    assert code == 0
    names = {line.split()[0] for line in out.splitlines()}
    assert {"digits-codebook", "digits-label-only"} <= names
    assert not {name for name in names if name.endswith(("-prgan", "-ngp", "-ap", "-minimax", "-laplace", "-frame"))}
    assert "recipe list --all" in err
    everything = json.loads(edgeveil("recipe", "list", "--all", "--json")[1])["recipes"]
    assert [one["name"] for one in everything] == Recipe.names()


def test_boards_are_listed_as_json(edgeveil):
    code, out, _ = edgeveil("board", "list", "--json")
    assert code == 0
    assert {"name": "coral-dev-board", "title": "Coral Dev Board (NXP i.MX 8M, Edge TPU)"} in json.loads(out)["boards"]


def test_the_plain_name_of_a_data_set_is_what_holds():
    assert {Recipe.find(name).perturber.kind for name in ALIASES} == {"codebook"}


def test_bash_completes_commands_and_options(tmp_path):
    program = tmp_path / "edgeveil"
    lines = [f"#!{sys.executable}", "import sys", f"sys.path[:0] = {sys.path!r}"]
    program.write_text("\n".join([*lines, "from edgeveil.trainer.cli.main import main", "main()", ""]))
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def completed(*words):
        # As bash does when a person presses the tab key: the function that was registered fills COMPREPLY.
        script = """
            eval "$(edgeveil --show-completion bash)"
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
            function=$(complete -p edgeveil | sed 's/.*-F \\([^ ]*\\).*/\\1/')
            $function edgeveil
            echo "${COMPREPLY[@]}"
        """
        done = subprocess.run(
            ["bash", "-c", script, "bash", *words],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        return set(done.stdout.split())

    assert completed("edgeveil", "rec") == {"recipe"}
    assert completed("edgeveil", "recipe", "") == {"new", "list", "show"}
    assert completed("edgeveil", "run", "list", "--j") == {"--json"}


def test_an_old_name_on_the_command_line_is_one_sentence(tmp_path, edgeveil):
    code, out, err = edgeveil("train", "mnist-release", "--out", tmp_path / "run")
    assert (code, out) == (2, "")
    assert err == 'error: The recipe "mnist-release" is called "mnist-codebook" since 0.2.\n'


def test_a_key_is_made_without_what_audits_need(tmp_path):
    words = ["key", "new", str(tmp_path / "keys"), "--no-passphrase"]
    code = f"import sys; from edgeveil.trainer.cli import main; main.app({words}, standalone_mode=False); "
    said = subprocess.run(
        [sys.executable, "-c", code + "print('scipy' in sys.modules)"], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "False"
