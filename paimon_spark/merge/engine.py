"""MergeEngine: what becomes of the records of one key; chosen by the table option ``merge-engine``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from paimon_spark.errors import UnsupportedFeature
from paimon_spark.files.key_values import KeyValues
from paimon_spark.merge.deduplicate import Deduplicate
from paimon_spark.merge.key_groups import KeyGroups
from paimon_spark.merge.partial_update import PartialUpdate
from paimon_spark.merge.sequence_groups import sequence_groups
from paimon_spark.merge.user_sequence import UserSequence, user_sequence
from paimon_spark.options import IGNORE_DELETE, MERGE_ENGINE, REMOVE_RECORD_ON_DELETE, Options
from paimon_spark.types import DataField


class MergeEngine(Protocol):
    """Merges the records of each key into one row. Immutable and picklable."""

    @property
    def user_sequence(self) -> UserSequence | None:
        """The columns of ``sequence.field``, which order the records of a key before their sequence numbers do."""

    def required_columns(self, wanted: Collection[str]) -> frozenset[str]:
        """The columns, ``wanted`` and the primary key among them, that have to be read to merge ``wanted``."""

    def merge(self, rows: KeyValues, groups: KeyGroups) -> KeyValues:
        """At most one row a key, in key order; retracts that remain keep their kind. A lone record stays as it is.

        The kinds are None when every row is +I. ``rows`` may lack table columns, as long as those there are closed
        under :meth:`required_columns`.

        :raises InvalidInput: the records contradict the table's definition
        """


class TableDefinition(Protocol):
    """What an engine has to know of a table; a ``TableSchema`` is one."""

    @property
    def fields(self) -> Sequence[DataField]:
        """The columns, in order."""

    @property
    def primary_keys(self) -> Sequence[str]:
        """Names of the primary-key columns, partition columns included."""

    @property
    def options(self) -> Options:
        """The table options."""


def merge_engine(table: TableDefinition) -> MergeEngine:
    """The merge engine of a table.

    :raises UnsupportedFeature: an engine, or a use of an engine, that this package does not implement
    :raises InvalidInput: options that name unknown columns or contradict each other
    """
    return engine_of(table.options, table.fields, table.primary_keys)


def engine_of(options: Options, fields: Sequence[DataField], primary_keys: Sequence[str]) -> MergeEngine:
    """The merge engine of a table with those options, columns (in order) and primary key; see :func:`merge_engine`."""
    name = options.get_option(MERGE_ENGINE)
    order = user_sequence(options, fields)
    ignore_delete = options.get_option(IGNORE_DELETE)
    if name == "deduplicate":
        return Deduplicate(tuple(primary_keys), order, ignore_delete)
    if name == "partial-update":
        return PartialUpdate(
            tuple(fields),
            tuple(primary_keys),
            sequence_groups(options, fields),
            order,
            ignore_delete,
            options.get_option(REMOVE_RECORD_ON_DELETE),
        )
    raise UnsupportedFeature(
        f"option {MERGE_ENGINE.key!r} = {name!r} is not supported; the engines are deduplicate and partial-update"
    )
