"""Perturbers. A kind is one file: a class as ``edgeveil.trainer.recipe.perturber.Perturber`` describes it."""
