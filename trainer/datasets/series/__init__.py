"""Data sets of time series, and how recordings become windows."""
