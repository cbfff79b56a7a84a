"""``edgeveil ui``: what is on disk, as pages of this machine: runs, audits, sweeps, bundles and boards."""
