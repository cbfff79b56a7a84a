"""One family of attacks a file; trainer/audit/registry.py lists them."""
