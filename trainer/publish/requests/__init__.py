"""What a plan may ask for beside the rows."""
