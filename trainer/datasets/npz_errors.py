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
