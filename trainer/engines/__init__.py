"""Where jobs are run: processes of this machine, or a Ray cluster. A job is a function's name and JSON."""
