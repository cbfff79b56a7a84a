"""EdgeVeil: on-sensor perturbation, from a data set to a signed bundle on a board."""
