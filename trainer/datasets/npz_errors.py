"""What zipfile and numpy raise on an .npz that is damaged, encrypted or packed in a way they do not know."""

import zipfile
import zlib

UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    RuntimeError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)


def why(error: BaseException) -> str:
    """The reason in one clause. Numpy takes what is no .npz for a pickle, and would have the reader allow pickles."""
    return "it is no zip archive of arrays" if "pickle" in str(error) else str(error) or type(error).__name__
