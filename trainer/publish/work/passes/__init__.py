"""The three passes of a publication: its table, its frames in chunks, its parts."""
