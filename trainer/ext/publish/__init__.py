"""A table for one recipient: identifiers become pseudonyms, and k people look alike in what may be known of them."""
