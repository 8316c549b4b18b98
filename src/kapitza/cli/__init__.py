"""The command `kapitza`."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command.

    Ctrl-C ends it without a traceback, also while it is still being loaded.
    """
    try:
        from kapitza.cli.app import run

        run(arguments)
    except BaseException as problem:
        if not _is_stop(problem):
            raise
        print("Error: Stopped.", file=sys.stderr)
        sys.exit(130)


def _is_stop(problem: BaseException | None) -> bool:
    """Return whether Ctrl-C caused the problem.

    Compiled modules turn it into an ImportError when it comes in them.
    """
    while problem is not None and not isinstance(problem, KeyboardInterrupt | SystemExit):
        problem = problem.__cause__ or problem.__context__
    return isinstance(problem, KeyboardInterrupt)


__all__ = ["main"]
