"""The column of a table that says whose line it is. It is no feature: it goes no further than to a number."""

import hashlib
from typing import List, Tuple

from edgeveil.edge_runtime.errors import BadInput


class SubjectColumn(object):
    """Takes the column ``number``, from 1, out of lines that have ``features`` others. Raises ``BadInput``."""

    def __init__(self, number: int, features: int) -> None:
        if not 1 <= number <= features + 1:
            raise BadInput(
                "expected --subject-column from 1 to {}, for a subject beside {} features; got {}".format(
                    features + 1, features, number
                )
            )
        self._place, self._features = number - 1, features
        self._any = False  # whether a line was whole

    def take(self, lines: List[bytes], first: int) -> Tuple[List[bytes], List[int], List[Tuple[int, str]]]:
        """The lines without the column, the number of each one's subject, and the refused: (line, what is wrong).

        A refused line is empty, as one that was empty before. ``first`` is the number of the first of them.
        """
        rest, subjects, refused = [], [], []
        for number, line in enumerate(lines, first):
            cells = line.split(b",") if line.strip() else []
            problem = ""
            if cells and len(cells) != self._features + 1:
                problem = "{} columns, and {} were expected with that of the subject".format(
                    len(cells), self._features + 1
                )
                if not self._any:
                    # Not one broken line among good ones.
                    raise BadInput(
                        "line {} has {}: --subject-column {} names a feature, or the table is another. Name the column "
                        "that is none.".format(number, problem, self._place + 1)
                    )
            self._any = self._any or bool(cells)
            subject = b"" if problem or not cells else cells.pop(self._place).strip()
            if cells and not problem and not subject:
                problem = "column {} names no subject".format(self._place + 1)
            if problem:
                refused.append((number, problem))
            rest.append(b"" if problem else b",".join(cells))
            subjects.append(int.from_bytes(hashlib.sha256(subject).digest()[:8], "big"))
        return rest, subjects, refused
