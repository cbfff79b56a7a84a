"""How many rows, people or sessions are enough, and for what: each count once, with its reason.

What a count is of is in its name; what else a rule needs (a share, a half, a factor of slices) is where it is used. How
many people a certificate needs is no constant: ``certificate.units_needed``.
"""

# Of each class of y and z in each slice: below that, the part of it that is held out may be empty.
SLICE_ROWS = 5
# Of a slice for attacks alone: with fewer, adversaries learn more on folds of the test slice.
ATTACK_ROWS = 200
# To train adversaries on: below it no family has anything to learn from. Where rows are of subjects or sessions,
# training, stopping and choosing need different ones.
LEARN_ROWS, LEARN_UNITS = 60, 10
# Of each class of z to train an attack on: with fewer, one at chance is no evidence.
ROWS_OF_A_CLASS = 20
# Rows for each value that is counted, on average: with fewer, counting learns nothing.
ROWS_OF_A_VALUE = 8.0
# Behind a rate or a bound. Two standard errors of a half in 30 rows are 18 points: with fewer it is mostly chance.
RATE = 30
# Independent test rows, for an interval of 5 points either way at 50 %.
TEST_ROWS = 385
# Rows behind a name, a mean that is sent, or a figure of a part: one of fewer is somebody's own, or noise.
SHOWN_ROWS, SHOWN_PEOPLE = 10, 5
# Of a part that is attacked apart, and to halve again and again: a twentieth of it is two.
PART_ROWS = 40
# Of which 1 % is a row: for rates at so many false positives.
PERCENT_ROWS = 100
