"""The card of a publication, as a page and as text, from its publication.json alone."""
