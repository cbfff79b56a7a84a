"""Sections of an audit document, one file each."""
