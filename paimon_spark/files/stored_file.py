"""StoredFile: what the file formats have in common for reading.

A file is a sequence of groups of rows (row groups of parquet, stripes of ORC; an Avro file is one group). A group
is the least that can be left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from paimon_spark.errors import CorruptFile, PaimonError, StorageError
from paimon_spark.predicate import BoolArray, Predicate


class StoredFile(Protocol):
    """An open data file. Errors of its bytes are CorruptFile; wrap calls that may find some in :func:`reading`."""

    @property
    def columns(self) -> Collection[str]:
        """Names of the columns in the file."""
        ...

    @property
    def group_rows(self) -> Sequence[int]:
        """Number of rows of each group."""
        ...

    def may_match(self, predicate: Predicate, columns: Mapping[str, str]) -> BoolArray:
        """Which groups may hold a row that satisfies ``predicate``.

        ``columns`` maps the predicate's columns to the file's; comparisons of other columns exclude nothing.
        """
        ...

    def batches(self, columns: Sequence[str], groups: Sequence[int], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of ``groups`` in order. Batches of up to ``batch_rows`` rows have at least these ``columns``."""
        ...


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Turns what the format libraries raise into this package's errors.

    An OSError without a number does not come from the operating system: it is how Arrow reports broken pages.
    """
    try:
        yield
    except PaimonError:
        raise
    except OSError as problem:
        if problem.errno is not None:
            raise StorageError(f"cannot read {path}: {problem}") from problem
        raise CorruptFile(path, str(problem)) from problem
    except (pa.ArrowException, ValueError, KeyError, IndexError, TypeError, EOFError, OverflowError) as problem:
        raise CorruptFile(path, f"{type(problem).__name__}: {problem}") from problem
