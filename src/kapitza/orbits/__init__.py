"""orbits."""
