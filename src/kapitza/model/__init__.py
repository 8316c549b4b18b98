"""The equations, written once."""
