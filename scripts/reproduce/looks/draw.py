"""Pictures for the documentation, in few colours, so that they are small."""

from __future__ import annotations

import io
from pathlib import Path

from edgeveil.edge_runtime.storage.atomic import write_atomic
from scripts.reproduce.looks.chromium import Chromium

DOCS = Path("docs/looks")
COLOURS = 96


def draw(browser: Chromium, file: str, height: int | None) -> None:
    """What is shown, its first ``height`` pixels or all of it, as a picture of docs/looks."""
    from PIL import Image

    picture = Image.open(io.BytesIO(browser.picture(height=height))).convert("RGB").quantize(COLOURS)
    data = io.BytesIO()
    picture.save(data, "PNG", optimize=True)
    DOCS.mkdir(exist_ok=True)
    write_atomic(str(DOCS / file), data.getvalue())
