"""Where the checkout lies, a folder that shows it to other interpreters as it is installed, and tools kept apart."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# On another interpreter's path this gives ``import edgeveil.edge_runtime``; scripts/environment makes it.
PACKAGES = ROOT / ".venv/src"


def docs_tool(name):
    """The path of a program of .venvs/docs; skips, by name, where it is not here."""
    import pytest  # not in the processes that tests start

    from scripts.environments.pythons import folder

    path = folder() / "docs/bin" / name
    if not path.exists():
        pytest.skip(f"no {name}: run scripts/environments/docs")
    return str(path)
