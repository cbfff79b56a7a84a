"""Guards for the people a model was trained on: noise, accounting, estimators, and what a guarantee says."""
