"""Plain text for terminals: tables whose columns line up, sizes and counts that can be read at a glance."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence

NARROWEST, WIDEST = 80, 120
_GAP = "  "
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def terminal_width() -> int:
    """Columns to fill: those of the terminal, within reason; 100 without one."""
    return min(max(shutil.get_terminal_size((100, 24)).columns, NARROWEST), WIDEST)


def one_line(text: str) -> str:
    """The text on one line, without characters that a terminal would act upon."""
    return "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))


def count(number: int) -> str:
    """``1,234,567``."""
    return f"{number:,}"


def size(number: int) -> str:
    """Bytes in the largest unit that leaves at least one: ``980 B``, ``12.4 MiB``."""
    value, unit = float(number), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{number} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def cut(text: str, width: int) -> str:
    """The text, or as much of its beginning as fits, marked with an ellipsis."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    numeric: Sequence[bool],
    width: int | None = None,
    totals: int = 0,
) -> Iterator[str]:
    """The lines of a table: headers, a rule, rows; the last ``totals`` rows stand below a rule of their own.

    Columns that are ``numeric`` are aligned to the right. Columns are as wide as their content; the last is cut so that
    lines fit into ``width``, if one is given.
    """
    cells = [[one_line(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(headers))]
    if width is not None:
        left = width - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1)
        widths[-1] = max(min(widths[-1], left), len(headers[-1]))
    rule = _GAP.join("-" * w for w in widths)
    for number, row in enumerate(cells):
        if number == 1 or (totals and number == len(cells) - totals):
            yield rule
        padded = [
            cell.rjust(w) if right else cell.ljust(w) for cell, w, right in zip(row, widths, numeric, strict=True)
        ]
        padded[-1] = cut(row[-1], widths[-1])
        yield _GAP.join(padded).rstrip()


def without_repeats(rows: Sequence[Sequence[str]], columns: int) -> list[list[str]]:
    """The rows with a cell blank where it, and all before it, repeat the row above; of the first ``columns`` only."""
    result = []
    above: Sequence[str] = ()
    for row in rows:
        same = 0
        while above and same < columns and row[same] == above[same]:
            same += 1
        result.append(["" if i < same else cell for i, cell in enumerate(row)])
        above = row
    return result
