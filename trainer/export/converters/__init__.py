"""Converters: Keras to the bytes of a file, one file each; a profile names those that its board takes."""
