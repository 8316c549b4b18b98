"""Hostile inputs by the thousand: generated and damaged files, odd arguments, command lines.

Every case must end with a result or a KapitzaError, within 5 s of computing and 1 GB, and touch nothing outside its own
folder. `python -m tests.hostile 10000` (`make fuzz`) prints the table; 500 cases run with the tests.

A new kind of input is a `Family` (see families.py): a Hypothesis strategy of cases, and what is done with one.
"""
