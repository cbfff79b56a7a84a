"""What an attack has found: metrics of its answers, on whom it gains, and whether that is chance."""
