"""Training loops that perturbers share: classifiers, epochs, checkpoint scores."""
