"""KDD Cup 1999: network connections of a simulated site, and which of them were attacks.

S. Stolfo et al., from the DARPA 1998 evaluation of MIT Lincoln Laboratory; UCI KDD Archive. No licence is stated.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence

import numpy as np

from edgeveil.trainer.datasets.readings import checked_path
from scripts.papers.adult import Coded

SOURCE = "the UCI KDD Archive (kddcup.data_10_percent)"
FILES = {"kddcup.data_10_percent.gz": "7bfaa8cef1350f72842018c32893e2fa4539d57efbb22f998eb74ecefc3da3b4"}
CATEGORIES = {"protocol": 1, "service": 2, "flag": 3}  # columns; the last is the label
SECONDS, BYTES, COUNTS, HOST_COUNTS = (0,), (4, 5), (22, 23), (31, 32)
RATES = (*range(24, 31), *range(33, 41))
# Public caps of log1p: a day of seconds or so, what a byte count can be, windows of 511 and 255 connections.
CAPS = {SECONDS: 6e4, BYTES: 2e9, COUNTS: 511.0, HOST_COUNTS: 255.0, RATES: 1.0}
OTHER_CAP = 1e4
# The values that occur in the published file: the site was simulated, and no other list of them is known.
VALUES = {
    "protocol": "icmp tcp udp",
    "service": "IRC X11 Z39_50 aol auth bgp courier csnet_ns ctf daytime discard domain domain_u echo eco_i ecr_i efs "
    "exec finger ftp ftp_data gopher harvest hostnames http http_2784 http_443 http_8001 imap4 iso_tsap klogin kshell "
    "ldap link login mtp name netbios_dgm netbios_ns netbios_ssn netstat nnsp nntp ntp_u other pm_dump pop_2 pop_3 "
    "printer private red_i remote_job rje shell smtp sql_net ssh sunrpc supdup systat telnet tftp_u tim_i time urh_i "
    "urp_i uucp uucp_path vmnet whois",
    "flag": "OTH REJ RSTO RSTOS0 RSTR S0 S1 S2 S3 SF SH",
}


def lines() -> list[str]:
    """All 494,021 rows as they were published, of which 145,586 are distinct.

    Raises ``BadInput`` where EDGEVEIL_DATA does not hold the published file.
    """
    ((file, sha256),) = FILES.items()
    packed = checked_path(f"kddcup99/{file}", sha256=sha256, source=SOURCE).read_bytes()
    return gzip.decompress(packed).decode().splitlines()


def coded(rows: Sequence[str]) -> Coded:
    """Some of ``lines``; numbers are log1p under public caps, and the label says that a connection was an attack."""
    fields = np.array([line.split(",") for line in rows])
    places = [at for at in range(fields.shape[1] - 1) if at not in CATEGORIES.values()]
    return Coded(
        numbers=np.log1p(fields[:, places].astype(np.float64)),
        highest={str(at): float(np.log1p(_cap(at))) for at in places},
        categories={name: fields[:, at] for name, at in CATEGORIES.items()},
        values={name: values.split() for name, values in VALUES.items()},
        label=fields[:, -1] != "normal.",
    )


def _cap(column: int) -> float:
    return next((cap for columns, cap in CAPS.items() if column in columns), OTHER_CAP)
