"""TLS for sinks: certificates and host names are always checked."""

import ssl
from typing import Any, Dict

from edgeveil.edge_runtime.errors import BadInput
from edgeveil.edge_runtime.sinks.uri import Known

FILES: Known = {"ca": str, "cert": str, "key": str}


def context(options: Dict[str, Any]) -> ssl.SSLContext:
    """A client's context: ``ca`` is a file of authorities (default: the system's), ``cert`` and ``key`` its own.

    Raises ``BadInput`` where a file is not there or not what it should be.
    """
    if ("cert" in options) != ("key" in options):
        raise BadInput("a client certificate needs both cert=FILE and key=FILE")
    try:
        made = ssl.create_default_context(cafile=options.get("ca"))
        if hasattr(made, "minimum_version"):
            made.minimum_version = ssl.TLSVersion.TLSv1_2  # novm: asked for in the line above
        else:
            # Python 3.6.
            made.options |= ssl.OP_NO_TLSv1 | ssl.OP_NO_TLSv1_1
        if "cert" in options:
            made.load_cert_chain(options["cert"], options["key"])
    except (OSError, ssl.SSLError):
        files = ", ".join("{}={}".format(name, options[name]) for name in sorted(FILES) if name in options)
        raise BadInput("expected readable PEM files for TLS; got {}".format(files)) from None
    return made
