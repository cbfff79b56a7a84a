"""What an audit says of the people behind the training data: the head's promise, what training spends, membership."""
