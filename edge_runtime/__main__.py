"""``python -m edgeveil.edge_runtime`` is ``edgeveil-edge``."""

import sys

from edgeveil.edge_runtime.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
