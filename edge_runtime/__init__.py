"""The runtime for the board: it takes a signed bundle and raw frames, and emits only perturbed frames.

It needs the standard library and numpy; interpreters, sources and sinks import their own libraries when they are
opened. Import from ``edgeveil.edge_runtime.api`` in your programs. This module imports nothing: the process with the
network must not load the code that sees raw frames.
"""

__version__ = "0.2.0"

if __name__ == "edge_runtime":
    raise ImportError(
        "edge_runtime is imported as edgeveil.edge_runtime since 0.2; CHANGELOG.md lists where each module moved"
    )
