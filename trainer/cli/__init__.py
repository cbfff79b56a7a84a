"""The ``edgeveil`` program: the workstation's commands, or one sentence where their packages are not installed."""

import sys


def start() -> None:
    """Run the command line. Exits with 2 where a package of the extra ``trainer`` is missing."""
    try:
        from edgeveil.trainer.cli.main import main
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "edgeveil"):
            raise
        print(
            f"error: {package} is not installed, which edgeveil, the workstation's command, needs. On CPython 3.11 to "
            "3.13, run: pip install 'edgeveil[trainer]'. A board needs edgeveil-edge alone.",
            file=sys.stderr,
        )
        sys.exit(2)
    main()
