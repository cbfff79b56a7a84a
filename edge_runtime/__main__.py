"""``python -m edge_runtime`` is ``edgeveil-edge``."""

import sys

from edge_runtime.cli import main

if __name__ == "__main__":
    sys.exit(main())
