"""Places: where the files of a table are, what breaches call them, and whether they are there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from paimon_spark.check.breach import Breach, Kind
from paimon_spark.errors import CorruptFile, NotFound
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.index_manifest import IndexEntry
from paimon_spark.metadata.locations import data_file_path
from paimon_spark.metadata.manifest import ManifestEntry
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.metadata.table_metadata import TableMetadata

Problem = CorruptFile | NotFound


@dataclass
class Places:
    """The files of one table. Each directory is listed once, when it is first asked about."""

    metadata: TableMetadata
    schema: TableSchema
    _directories: dict[tuple[bytes, int], str] = field(default_factory=dict)
    _listings: dict[str, dict[str, int]] = field(default_factory=dict)

    def name(self, path: str) -> str:
        """The path as breaches show it: relative to the table."""
        return path.removeprefix(self.metadata.paths.root + "/")

    def breach(self, problem: Problem, path: str | None = None) -> Breach:
        """What an error says, as a breach; ``path`` names the file where the error does not."""
        if isinstance(problem, NotFound):
            return Breach(Kind.MISSING, self.name(path or "<unknown>"), "the file does not exist")
        return Breach(Kind.CORRUPT, self.name(path or problem.path), problem.detail)

    def bucket(self, partition: bytes, bucket: int) -> str:
        """The directory of a bucket.

        :raises CorruptFile: the partition is not a row of the partition columns
        """
        key = (partition, bucket)
        if key not in self._directories:
            self._directories[key] = self.metadata.bucket_directory(self.schema, partition, bucket)
        return self._directories[key]

    def data_file(self, entry: ManifestEntry) -> str:
        """The path of a data file.

        :raises CorruptFile: it claims to lie outside of the table
        """
        if entry.file.external_path is None:
            return self.metadata.paths.data_file(self.bucket(entry.partition, entry.bucket), entry.file)
        return data_file_path(self.metadata.paths, self.schema, entry.partition, entry.bucket, entry.file)

    def data_file_name(self, entry: ManifestEntry) -> str:
        """What breaches call a data file, also one whose path cannot be made."""
        try:
            return self.name(self.data_file(entry))
        except CorruptFile:
            return entry.file.name

    def absence(self, entry: ManifestEntry) -> Iterator[Breach]:
        """Whether a data file and its companions are not there, or not as long as recorded."""
        try:
            path = self.data_file(entry)
        except CorruptFile as problem:
            yield Breach(Kind.CORRUPT, entry.file.name, f"it has no place: {problem.detail}")
            return
        yield from self._absence(path, entry.file.size)
        for companion in _companions(entry.file):
            yield from self._absence(f"{path.rpartition('/')[0]}/{companion}", None)

    def index_absence(self, entry: IndexEntry) -> Iterator[Breach]:
        """Whether an index file is not there, or not as long as recorded."""
        try:
            path = self.metadata.indexes.index_path(entry, self.schema)
        except CorruptFile as problem:
            yield self.breach(problem)
            return
        yield from self._absence(path, entry.size)

    def statistics_absence(self, name: str) -> Iterator[Breach]:
        """Whether a file of table statistics is not there."""
        yield from self._absence(f"{self.metadata.paths.root}/statistics/{name}", None)

    def _absence(self, path: str, size: int | None) -> Iterator[Breach]:
        directory, _, name = path.rpartition("/")
        if directory not in self._listings:
            self._listings[directory] = {file.name: file.size for file in self.metadata.storage.list(directory)}
        found = self._listings[directory].get(name)
        if found is None:
            yield Breach(Kind.MISSING, self.name(path), "the file does not exist")
        elif size is not None and found != size:
            yield Breach(Kind.SIZE, self.name(path), f"it is {found} bytes long, the table recorded {size}")


def _companions(file: DataFile) -> tuple[str, ...]:
    """Files that belong to a data file (indexes, changelogs), in its directory."""
    return file.extra_files if file.external_path is None else ()
