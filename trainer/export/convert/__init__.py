"""Converters from Keras to the formats that boards run."""
