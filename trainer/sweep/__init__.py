"""The frontier: many settings of many perturbers, each trained and attacked, leakage against what is kept."""
