"""Sections with few rows in level 0: how all their other files still go to Spark's own reader.

New rows wait in level 0 until a compaction merges them. They concern as many older rows at most, and all other rows of
the section are rows of the table as they are. So the older versions of the new keys are looked for when the scan is
opened. Spark reads the files above level 0 without them, and the Python source merges them with level 0::

    level 5, F   (1, a) (2, b) (3, c) (4, d)        level 0, N   (2, x) (4, -D)

    found        F at 1 and 3                       columns k, v of a table that merges by partial-update
    Spark        F without 1 and 3                  (1, a) (3, c)
    Python       N merged with F at 1 and 3         (2, x)

Where the newest record alone decides, older versions are left out of Spark's rows, but need not be read; and a single
file of level 0 without deletes is rows of the table as it is. Spark reads it too, and nothing is left for Python.

The driver reads the key columns of the files that overlap level 0, at some 20 nanoseconds a row; so there are bounds.
A section whose level 0 has more than one row for ``FEW`` above it is merged in Python as a whole, and so are those
that are left when ``ROWS_SEARCHED`` rows of smaller ones are to be searched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyroaring import BitMap

from paimon_spark.merge.engine import newest_decides
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import DELETION_VECTORS
from paimon_spark.read.plan import Section
from paimon_spark.read.scan import Scan
from paimon_spark.read.split import Split

FEW = 8
ROWS_SEARCHED = 16 * 2**20

Place = tuple[int, int]
"""A section: the number of its split, and its number in it."""

Positions = Mapping[str, BitMap]
"""Rows of data files: their positions, by the name of the file. No bitmap is empty."""


@dataclass(frozen=True)
class CoveredSection:
    """A section of ``split``, as the few files of level 0, ``new``, and those below them, ``upper``, whose rows are
    rows of the table unless ``new`` has their keys. A key has at most one row in ``upper``. ``new`` may be empty."""

    split: Split
    new: Section
    upper: Section

    @property
    def new_rows(self) -> int:
        """Rows of level 0."""
        return sum(file.row_count for file in self.new)

    @property
    def searched(self) -> int:
        """Rows in which keys must be searched."""
        return sum(file.row_count for file in self.upper) if self.new else 0

    def older(self, scan: Scan) -> Positions:
        """Where in ``upper`` the rows are that have a key of ``new``, without those that are deleted already, and those
        whose key the filter does not want.

        :raises NotFound: a file is gone, because the snapshot has expired
        :raises CorruptFile: a file is damaged
        """
        if not self.new:
            return {}
        # The source of the rest plans too, but is told what this finds, and need not import all that.
        from paimon_spark.compact.bucket_files import BucketFiles
        from paimon_spark.compact.deletion_maintainer import DeletionVectorMaintainer
        from paimon_spark.compact.levels import Levels
        from paimon_spark.compact.older_versions import OlderVersions

        schema, split = scan.table_schema, self.split
        files = BucketFiles(scan.metadata, schema, split.partition, split.bucket)
        vectors = DeletionVectorMaintainer(scan.metadata, (*self.new, *self.upper), split.deletions)
        levels = Levels.of(self.upper, schema.options, [f.type for f in schema.key_fields])
        wanted = scan.predicate and scan.predicate.restricted({f.name for f in schema.key_fields})
        with scan.expiry_explained():
            return OlderVersions(files, vectors, levels.runs, None, wanted).of(self.new)

    def files(self, schema: TableSchema) -> Section:
        """What Spark may read, if it holds no deletes: ``upper``, and a single file of level 0 to whose rows older
        versions add nothing."""
        return (*self.new, *self.upper) if len(self.new) == 1 and self._newest_decides(schema) else self.upper

    def rest(self, schema: TableSchema, older: Callable[[], Positions]) -> tuple[Section, Positions]:
        """The section that the Python source reads, and the rows that it reads of files above level 0: ``older``, which
        is asked for only where they count."""
        if self._newest_decides(schema):
            return self.new, {}
        positions = older()
        return (*self.new, *(file for file in self.upper if file.name in positions)), positions

    def _newest_decides(self, schema: TableSchema) -> bool:
        """Whether older versions have no part in what becomes of the keys of level 0."""
        in_order = max(f.max_sequence for f in self.upper) < min((f.min_sequence for f in self.new), default=0)
        return in_order and newest_decides(schema.options)


def covered_sections(scan: Scan, splits: Sequence[Split]) -> dict[Place, CoveredSection]:
    """The sections of several files that are within the bounds. Opens no file."""
    vectors = scan.table_schema.options.get_option(DELETION_VECTORS)
    found: dict[Place, CoveredSection] = {}
    for number, split in enumerate(splits):
        for at, files in enumerate(split.sections):
            if len(files) > 1:
                section = CoveredSection(split, *_parted(files))
                if _is_covered(section, vectors):
                    found[number, at] = section
    return _within_bounds(found)


def _parted(files: Section) -> tuple[Section, Section]:
    return tuple(f for f in files if f.level == 0), tuple(f for f in files if f.level > 0)


def _is_covered(section: CoveredSection, vectors: bool) -> bool:
    """Whether a reader of ``upper`` alone need not merge, and level 0 is small. ``vectors``: the table has deletion
    vectors, which mask all older versions above level 0."""
    upper: Sequence[DataFile] = section.upper
    if not upper or any(f.delete_row_count != 0 for f in upper):
        return False
    alone = vectors or len({f.level for f in upper}) == 1
    return alone and section.new_rows * FEW <= sum(f.row_count for f in upper)


def _within_bounds(sections: Mapping[Place, CoveredSection]) -> dict[Place, CoveredSection]:
    """As many of the sections as may be searched, the smallest first."""
    kept: dict[Place, CoveredSection] = {}
    total = 0
    for place in sorted(sections, key=lambda place: (sections[place].searched, place)):
        total += sections[place].searched
        if total > ROWS_SEARCHED:
            break
        kept[place] = sections[place]
    return kept
