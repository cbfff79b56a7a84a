"""Where the checkout lies, and a folder that shows it to other interpreters as it is installed."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# On another interpreter's path this gives ``import edgeveil.edge_runtime``; scripts/environment makes it.
PACKAGES = ROOT / ".venv/src"
