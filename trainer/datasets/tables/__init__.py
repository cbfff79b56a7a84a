"""Public tables of people and of connections, on which private models are measured, with bounds from outside."""
