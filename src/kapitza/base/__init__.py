"""Small modules that every other folder may use.

Arrays, angles, checks, units, files, locks, workers, progress.
"""
