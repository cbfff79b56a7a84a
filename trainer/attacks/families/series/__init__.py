"""Adversaries of time series: a network over time, trees on features of the signal, and the nearest in shape."""
