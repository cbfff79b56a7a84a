"""Tables, pictures and sentences made from recorded results, and from nothing else."""
