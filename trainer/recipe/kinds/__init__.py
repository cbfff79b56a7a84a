"""The kinds of perturbers that a recipe's ``[perturber]`` may be, and what each has to say."""
