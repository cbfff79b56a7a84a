"""One family of attribute inference attacks a file; trainer/attacks/registry.py lists them."""
