"""Hostile inputs by the thousand: generated and damaged files, odd arguments, command lines.

Every case must end with a result or a KapitzaError, within the computing time of its family (5 s unless stated) and
1 GB, and touch nothing outside its own folder. `make fuzz` (`python -m tests.hostile --cases N --seed S --only FAMILY`)
prints the failures, each with the command that repeats it, and the table; 500 cases run with the tests.

A new kind of input is a `Family` (see families.py): a Hypothesis strategy of cases, and what is done with one.
"""
