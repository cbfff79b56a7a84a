"""What runs on the board: a signed bundle in, raw frames in, perturbed frames out, and nothing else.

Needs the standard library and numpy; an interpreter, a source or a sink brings its own library when it is asked for.
What a program of yours imports stands in ``edgeveil.edge_runtime.api``. Nothing is imported here: the process that
has the network must not load the code that sees raw frames.
"""

__version__ = "0.2.0"

if __name__ == "edge_runtime":
    raise ImportError(
        "edge_runtime is imported as edgeveil.edge_runtime since 0.2; CHANGELOG.md lists where each module moved"
    )
