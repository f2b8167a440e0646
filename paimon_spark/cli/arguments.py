"""The arguments of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from datetime import timedelta

from paimon_spark.options import parse_duration

EXIT_CODES = """\
exit codes:
  0  done; for check: the table is sound
  1  failed; for check: breaches were found
  2  the arguments make no sense
  3  another commit stood in the way and nothing was changed: try again
  4  the storage did not say whether the commit took place: look before you try again
"""


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments, of the process by default, as attributes.

    ``command`` is the command's name, ``path`` the table's directory, ``option`` a list of (key, value) pairs.
    Exits with code 2, and says why, when they make no sense.
    """
    return _parser().parse_args(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m paimon_spark",
        description="Look at, check, compact and expire Paimon primary-key tables.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    check = _command(commands, "check", "verify every invariant of a table and name each breach")
    which = check.add_mutually_exclusive_group()
    which.add_argument("--snapshot", type=int, metavar="N", help="check this snapshot instead of the newest")
    which.add_argument("--all-snapshots", action="store_true", help="check all snapshots and tags")
    check.add_argument("--fast", action="store_true", help="do not open data files")
    inspect = _command(commands, "inspect", "show what lies at each level of each bucket")
    inspect.add_argument("--snapshot", type=int, metavar="N", help="show this snapshot instead of the newest")
    inspect.add_argument("--files", action="store_true", help="show every data file, too")
    compact = _command(commands, "compact", "merge the files of each bucket that needs it")
    compact.add_argument(
        "--full", action="store_true", help="rewrite each bucket to one level, whether it needs it or not"
    )
    compact.add_argument(
        "--partition",
        action="append",
        default=[],
        type=parse_partition,
        metavar="K=V[,K=V…]",
        help="compact only partitions with these values; may be given several times",
    )
    compact.add_argument("--spark", action="store_true", help="as a Spark job, one task a bucket; see spark-submit")
    expire = _command(commands, "expire", "expire the oldest snapshots and delete the files that only they use")
    expire.add_argument("--retain-max", type=int, metavar="N", help="keep at most N snapshots")
    expire.add_argument("--retain-min", type=int, metavar="N", help="keep at least N snapshots")
    expire.add_argument(
        "--older-than",
        type=parse_age,
        metavar="AGE",
        help="expire those superseded longer ago than this, such as '7 d', '12 h' or '30 min'",
    )
    expire.add_argument("--max-deletes", type=int, metavar="N", help="expire at most N snapshots")
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, purpose: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name,
        help=purpose,
        description=purpose[0].upper() + purpose[1:] + ".",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_argument("path", help="the table's directory")
    command.add_argument(
        "--option",
        action="append",
        default=[],
        type=parse_pair,
        metavar="KEY=VALUE",
        help="an option of the table or its storage, for this command only; may be given several times",
    )
    return command


def parse_pair(text: str) -> tuple[str, str]:
    """``key=value`` as a pair; the value may be empty and hold further equals signs."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    return key.strip(), value


def parse_age(text: str) -> timedelta:
    """The time of ``7 d``, ``12 h`` or ``30 min``."""
    try:
        return timedelta(milliseconds=parse_duration(text))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no age such as '7 d', '12 h' or '30 min'") from None


def parse_partition(text: str) -> Mapping[str, str]:
    """``k1=v1,k2=v2``, or the directory ``k1=v1/k2=v2``, as a mapping. A value with a comma or a slash in it has to
    come alone, in an argument of its own."""
    parts = text.split("," if "," in text else "/")
    if not all("=" in part for part in parts):
        parts = [text]
    pairs = [parse_pair(part) for part in parts]
    if len({key for key, _ in pairs}) < len(pairs):
        raise argparse.ArgumentTypeError(f"{text!r} names a column twice")
    return dict(pairs)
