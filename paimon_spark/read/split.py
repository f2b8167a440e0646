"""Split: the files of one bucket that one reader reads together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyroaring import BitMap

from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.vector_range import DeletionVectorRef


@dataclass(frozen=True)
class Split:
    """Work for one reader, pinned to a snapshot.

    ``sections`` are in key order and their key ranges do not overlap; the files inside a section do overlap and are
    merged. ``partition`` is a serialized BinaryRow. ``deletions`` has the deletion vectors by data file name. Of the
    files in ``chosen``, only the rows at those positions are read, whatever their vectors say. Splits travel between
    processes.
    """

    snapshot_id: int
    partition: bytes
    bucket: int
    sections: tuple[tuple[DataFile, ...], ...]
    deletions: Mapping[str, DeletionVectorRef] = field(default_factory=dict)
    chosen: Mapping[str, BitMap] = field(default_factory=dict)

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All files, section by section."""
        return tuple(file for section in self.sections for file in section)

    @property
    def raw(self) -> bool:
        """Whether the rows of the files are the rows of the table, once deletion vectors are applied: no file
        overlaps another and none holds a delete."""
        return all(len(section) == 1 and section[0].delete_row_count == 0 for section in self.sections)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def row_count(self) -> int:
        """Rows in all files, older versions, deletes and masked rows included."""
        return sum(file.row_count for file in self.files)
