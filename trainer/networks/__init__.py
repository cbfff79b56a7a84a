"""The networks that a recipe names: one class each, as ``edgeveil.trainer.networks.base.Network``."""
