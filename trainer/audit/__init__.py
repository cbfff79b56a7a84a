"""How much does an adversary who retrains still learn? Attacks, metrics with intervals, audit.json."""
