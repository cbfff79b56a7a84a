"""What can be read of a person from all that was published of them: linked frames, columns, and both."""
