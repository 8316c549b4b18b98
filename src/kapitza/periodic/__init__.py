"""periodic."""
