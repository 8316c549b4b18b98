"""The command `kapitza`."""

from kapitza.cli.app import main

__all__ = ["main"]
