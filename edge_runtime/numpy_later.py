"""numpy, imported when one of its attributes is first used: a bundle is verified where there is none."""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
else:

    class _Later(object):
        """Stands for the module; ``ndarray`` in annotations imports nothing."""

        def __getattr__(self, name: str) -> Any:
            if name == "ndarray" and "numpy" not in sys.modules:
                return Any
            import numpy

            value = self.__dict__[name] = getattr(numpy, name)
            return value

    np = _Later()

__all__ = ["np"]
