"""Small modules that every other folder may use: arrays, angles, checks, units, files, locks, workers, progress."""
