"""The command line: ``python -m paimon_spark <command> <path> …``.

Results go to the standard output. An error is one line on the standard error, and the exit code says what kind it is
(:data:`~paimon_spark.cli.arguments.EXIT_CODES`).
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from paimon_spark.cli.arguments import parse_arguments
from paimon_spark.cli.commands import COMMANDS, CONFLICT, DONE, FAILED, UNKNOWN, USAGE, UsageError
from paimon_spark.cli.rendering import one_line
from paimon_spark.errors import CommitConflict, CommitStateUnknown, PaimonError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command with ``arguments``, those of the process by default; its exit code.

    :raises SystemExit: for ``--help``, and with code 2 for arguments that make no sense
    """
    parsed = parse_arguments(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        code = COMMANDS[parsed.command](parsed)
        sys.stdout.flush()
        return code
    except UsageError as error:
        return _failed(error, USAGE)
    except PaimonError as error:
        return _failed(error, _code(error))
    except BrokenPipeError:  # the reader of our output has seen enough; keep Python from flushing into the closed pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


def _code(error: PaimonError) -> int:
    if isinstance(error, CommitConflict):
        return CONFLICT
    return UNKNOWN if isinstance(error, CommitStateUnknown) else FAILED


def _failed(error: Exception, code: int) -> int:
    print(f"paimon_spark: {one_line(str(error))}", file=sys.stderr)
    return code
