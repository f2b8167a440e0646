"""TablePaths: where the files of a table are.

::

    <root>/schema/schema-<id>                    ids from 0
    <root>/snapshot/snapshot-<id>                ids from 1;  LATEST, EARLIEST: hints, a decimal id without newline
    <root>/manifest/<name>                       manifests, manifest lists and index manifests
    <root>/index/<name>                          hash indexes and deletion vectors
    <root>/statistics/<name>
    <root>/tag/tag-<name>
    <root>/consumer/consumer-<id>
    <root>[/<data-file.path-directory>][/<k>=<v>…]/bucket-<n>/<data files>

Names come from files of the table or from the user, so each is checked to be a plain name before it is used.

Source: ``FileStorePathFactory``, ``SnapshotManager``, ``TagManager`` of Apache Paimon.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from paimon_spark.errors import CorruptFile, InvalidInput, InvalidOption
from paimon_spark.metadata.data_file import DataFile
from paimon_spark.metadata.file_name import is_plain_name
from paimon_spark.options import PATH_DIRECTORY, Options

POSTPONE_BUCKET = -2
SCHEMA_PREFIX, SNAPSHOT_PREFIX, TAG_PREFIX = "schema-", "snapshot-", "tag-"
_ID = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class TablePaths:
    """Full paths of a table's files; ``root`` is the table directory, without trailing slash."""

    root: str

    @property
    def schema_directory(self) -> str:
        """Directory of the schema files."""
        return f"{self.root}/schema"

    @property
    def snapshot_directory(self) -> str:
        """Directory of the snapshot files and their hints."""
        return f"{self.root}/snapshot"

    @property
    def manifest_directory(self) -> str:
        """Directory of the manifests, manifest lists and index manifests."""
        return f"{self.root}/manifest"

    @property
    def tag_directory(self) -> str:
        """Directory of the tag files."""
        return f"{self.root}/tag"

    @property
    def consumer_directory(self) -> str:
        """Directory of the consumer files."""
        return f"{self.root}/consumer"

    @property
    def latest_hint(self) -> str:
        """The hint file that names the newest snapshot."""
        return f"{self.snapshot_directory}/LATEST"

    @property
    def earliest_hint(self) -> str:
        """The hint file that names the oldest snapshot."""
        return f"{self.snapshot_directory}/EARLIEST"

    def schema_file(self, schema_id: int) -> str:
        """The file of a schema."""
        return f"{self.schema_directory}/{SCHEMA_PREFIX}{schema_id}"

    def snapshot_file(self, snapshot_id: int) -> str:
        """The file of a snapshot."""
        return f"{self.snapshot_directory}/{SNAPSHOT_PREFIX}{snapshot_id}"

    def tag_file(self, name: str) -> str:
        """The file of a tag.

        :raises InvalidInput: not a tag name
        """
        if not is_plain_name(name):
            raise InvalidInput(f"{name!r} is not a tag name: it is empty or holds a path separator")
        return f"{self.tag_directory}/{TAG_PREFIX}{name}"

    def manifest(self, name: str) -> str:
        """A manifest, manifest list or index manifest.

        :raises CorruptFile: not a plain name
        """
        return self._inside(self.manifest_directory, name)

    def statistics_file(self, name: str) -> str:
        """A file of table statistics.

        :raises CorruptFile: not a plain name
        """
        return self._inside(f"{self.root}/statistics", name)

    def index_file(self, name: str, bucket_directory: str | None = None) -> str:
        """A hash index or a file of deletion vectors: in the index directory, or in ``bucket_directory`` where the
        table's option ``index-file-in-data-file-dir`` puts it.

        :raises CorruptFile: not a plain name
        """
        return self._inside(bucket_directory or f"{self.root}/index", name)

    def bucket_directory(self, partition_path: str, bucket: int, options: Options) -> str:
        """The directory of a bucket's data files. ``partition_path`` is empty for unpartitioned tables.

        :raises InvalidOption: ``data-file.path-directory`` leads out of the table
        """
        parts = [self.root]
        directory = (options.get_option(PATH_DIRECTORY) or "").strip("/")
        if directory:
            if not all(is_plain_name(part) for part in directory.split("/")):
                raise InvalidOption(f"option {PATH_DIRECTORY.key!r} = {directory!r}: a directory below the table's")
            parts.append(directory)
        if partition_path:
            parts.append(partition_path)
        parts.append("bucket-postpone" if bucket == POSTPONE_BUCKET else f"bucket-{bucket}")
        return "/".join(parts)

    def data_file(self, bucket_directory: str, file: DataFile) -> str:
        """The path of a data file in its bucket's directory (one without an external path).

        :raises CorruptFile: its name is not a plain name
        """
        return self._inside(bucket_directory, file.name)

    def _inside(self, directory: str, name: str) -> str:
        if not is_plain_name(name):
            raise CorruptFile(self.root, f"the table names a file {name!r}, which is not a plain file name")
        return f"{directory}/{name}"


def listed_id(name: str, prefix: str) -> int | None:
    """The id in a file name such as ``snapshot-12``; None for hints, temporary and foreign files."""
    digits = name.removeprefix(prefix)
    if digits == name or _ID.fullmatch(digits) is None or str(int(digits)) != digits:
        return None
    return int(digits)
