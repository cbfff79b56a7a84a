"""Linear algebra of paper 000: cleaners, operators, LEACE, and how predictors are measured."""
