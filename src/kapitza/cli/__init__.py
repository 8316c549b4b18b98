"""The command `kapitza`."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry of the command. Ctrl-C ends it without a traceback, also while it is still being loaded."""
    try:
        from kapitza.cli.app import run

        run(arguments)
    except KeyboardInterrupt:
        import sys

        print("Error: Stopped.", file=sys.stderr)
        sys.exit(130)


__all__ = ["main"]
