"""Counts, histograms and means of the raw table that go with a publication, each with noise."""
