"""The commands: every one has an example and words for each of its options, and a flag is spelled one way."""

from collections import defaultdict

import typer.main

from edgeveil import __version__
from edgeveil.trainer.cli import main

# What is said of such a flag is the same in every command that has it.
SHARED = {
    "--json",
    "--passphrase-file",
    "--no-passphrase",
    "--password-file",
    "--identity",
    "--known-hosts",
    "--root",
    "--run",
    "--parallel",
    "--most-failures",
}


def commands(group=None, name=""):
    """Every command of ``edgeveil`` by its words, such as ``trust init``."""
    group = group or typer.main.get_command(main.app)
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name}{word} ")
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


def test_a_key_is_made_and_read_by_the_same_flags_everywhere():
    has = defaultdict(set)
    for name, flag, _ in flags():
        has[flag].add(name)
    assert has["--no-passphrase"] == {"keygen", "trust init"}
    trust = {"add", "remove", "revoke", "require", "set", "rotate", "sign", "upgrade", "policy"}
    signs = {"seal", "index", "audit", "runtime"} | {f"trust {name}" for name in trust}
    assert has["--passphrase-file"] == has["--no-passphrase"] | signs


def test_the_version_is_said(edgeveil):
    assert edgeveil("--version") == (0, f"edgeveil {__version__}\n", "")


def test_an_old_name_on_the_command_line_is_one_sentence(tmp_path, edgeveil):
    code, out, err = edgeveil("train", "mnist-release", "--out", tmp_path / "run")
    assert (code, out) == (2, "")
    assert err == 'error: The recipe "mnist-release" is called "mnist-codebook" since 0.2.\n'
