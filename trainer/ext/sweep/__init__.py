"""The sweep: many settings of many perturbers, each trained and attacked, as a frontier of leakage and utility."""
