"""A table for one recipient: identifiers become pseudonyms, and k people look alike in all that may be known of them."""
