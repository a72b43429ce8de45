"""The command ``intact``: one module per verb. `main` is what the console script calls.

Verbs raise `IntactError`, and the system its own about files; either is printed here, once, without a
traceback, and the exit status is 2.
Typer and rich load with `main`, the frameworks with the verb that needs them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from intact.errors import IntactError

USER_ERROR = 2


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one verb with `arguments` (default: the process's) and exit with its status."""
    from intact.cli.app import build

    try:
        build()(arguments, prog_name="intact")
    except (IntactError, OSError) as error:
        print(f"intact: {error}", file=sys.stderr)
        sys.exit(USER_ERROR)
