"""k-anonymity that counts people: hierarchies, criteria, and the two ways to generalise, Incognito and Mondrian."""
