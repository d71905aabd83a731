"""`python -m tfr_sql` is the command `tfr-sql`."""

from __future__ import annotations

import os
import sys

from ._command import find_command
from ._errors import TfrError


def main() -> None:
    try:
        command = find_command()
    except TfrError as error:
        sys.exit(f"error: {error}")
    os.execv(command, [command, *sys.argv[1:]])


if __name__ == "__main__":
    main()
