"""Commands of ``edgeveil`` that publish tables and manage pseudonyms."""
