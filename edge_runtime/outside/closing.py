"""Work at the end of a service that must not keep its process alive."""

import threading
from typing import Callable, List, Tuple


def done_within(work: Callable[[], None], seconds: float) -> Tuple[bool, List[BaseException]]:
    """Whether ``work`` ended within so many seconds, and the error that it ended with, if any.

    It goes on in a thread of its own where it did not, and ends with the process.
    """
    errors: List[BaseException] = []

    def run() -> None:
        try:
            work()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="closing", daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive(), errors
