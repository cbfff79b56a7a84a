"""Loaders of data sets, one file each."""
