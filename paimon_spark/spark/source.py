"""PaimonDataSource: ``format("paimon-py")``.

Spark makes an instance for every ``load()`` and asks its schema; then it keeps a pickled copy, which plans every
scan of that DataFrame (each action on Spark 4.0, the first one on later versions). So the scan that ``schema()``
stores is what all of them read: the snapshot that was newest at ``load()``, whatever is committed afterwards.

Columns and filters reach the source by options and by ``.schema(…)`` only. Spark's filter push-down for Python
sources is not implemented: it keeps its state in one reader for all uses of a DataFrame, and returns wrong rows when
there are two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from paimon_spark.errors import UnsupportedFeature
from paimon_spark.spark.failures import readable

if TYPE_CHECKING:
    from paimon_spark.read.scan import Scan
    from paimon_spark.spark.reader import PaimonReader
    from paimon_spark.spark.writer import PaimonWriter

NAME = "paimon-py"


class _NoStream:
    """Stands for a stream that cannot be read: whatever Spark asks of it is refused."""

    def __getattr__(self, question: str) -> Any:
        """:raises UnsupportedFeature: always"""
        with readable():
            raise UnsupportedFeature(
                f"{NAME} is not a source of Spark's streams; read the table with spark.read, again and again"
            )

    def stop(self) -> None:
        """Nothing runs."""


class PaimonDataSource(DataSource):  # type: ignore[misc]
    """Reads and writes one Paimon table.

    Options of both: ``path``, or ``warehouse`` and ``table`` (``db.table``). Of reads: ``columns`` (``a,b``),
    ``filters`` (JSON, see :mod:`paimon_spark.predicate`), ``scan.*``, ``source.split.*``. Of writes:
    ``partitionOverwriteMode`` (``static``, the default, or ``dynamic``) and any Paimon table option; these define a
    table that does not exist (``primary-key`` must be among them) and hold for this write alone when it does.
    """

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._scan: Scan | None = None

    @classmethod
    def name(cls) -> str:
        """The name for ``format(…)`` and ``USING``."""
        return NAME

    def schema(self) -> Any:
        """The columns of the table, or those of the option ``columns``, at the snapshot that all reads will see.

        :raises PaimonError: there is no table, or the options do not fit it
        """
        from paimon_spark.spark.opening import open_scan
        from paimon_spark.spark.reader import scan_schema

        with readable():
            self._scan = open_scan(self.options)
            return scan_schema(self._scan)

    def reader(self, schema: Any) -> PaimonReader:
        """A reader of the columns in ``schema``. If the user gave that schema, so that Spark never asked for ours,
        the snapshot is the one that is newest now.

        :raises PaimonError: there is no table, or the options or ``schema`` do not fit it
        """
        from paimon_spark.spark.opening import open_scan
        from paimon_spark.spark.reader import PaimonReader

        with readable():
            return PaimonReader.of(self._scan or open_scan(self.options), schema)

    def writer(self, schema: Any, overwrite: bool) -> PaimonWriter:
        """A writer of rows with ``schema``. A table that does not exist is created here.

        :raises PaimonError: ``schema`` or the options do not fit the table, or do not define a new one
        """
        from paimon_spark.spark.opening import open_writer

        with readable():
            return open_writer(self.options, schema, overwrite)

    def streamReader(self, schema: Any) -> Any:  # noqa: N802
        """Refuse ``spark.readStream``, as soon as Spark asks the first question; what is raised here, it loses."""
        return _NoStream()

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
        """Refuse ``df.writeStream``.

        :raises UnsupportedFeature: always
        """
        with readable():
            raise UnsupportedFeature(
                f"{NAME} is not a sink of Spark's streams; write each of their batches with df.write, in a function "
                "given to writeStream.foreachBatch"
            )
