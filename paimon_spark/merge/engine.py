"""MergeEngine: what becomes of the records of one key; chosen by the table option ``merge-engine``."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from paimon_spark.errors import UnsupportedFeature
from paimon_spark.files.key_values import KeyValues
from paimon_spark.merge.deduplicate import Deduplicate
from paimon_spark.merge.key_groups import KeyGroups
from paimon_spark.merge.partial_update import PartialUpdate
from paimon_spark.merge.sequence_groups import merge_groups
from paimon_spark.merge.user_sequence import UserSequence, user_sequence
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import IGNORE_DELETE, MERGE_ENGINE, REMOVE_RECORD_ON_DELETE, SEQUENCE_FIELD, Options


class MergeEngine(Protocol):
    """Merges the records of each key into one row. Immutable and picklable."""

    @property
    def user_sequence(self) -> UserSequence | None:
        """The columns of ``sequence.field``, which order the records of a key before their sequence numbers do."""

    def required_columns(self, wanted: Collection[str]) -> frozenset[str]:
        """The columns, ``wanted`` among them, that have to be read to merge ``wanted``, besides those of the key."""

    def merge(self, rows: KeyValues, groups: KeyGroups) -> KeyValues:
        """At most one row a key, in key order; retracts that remain keep their kind. A lone record stays as it is.

        The kinds are None when every row is +I. ``rows`` may lack table columns, as long as those there are closed
        under :meth:`required_columns`.

        :raises InvalidInput: the records contradict the table's definition
        """


def merge_engine(schema: TableSchema) -> MergeEngine:
    """The merge engine of a table.

    :raises UnsupportedFeature: an engine that this package does not implement
    :raises InvalidInput: an option that names an unknown column
    """
    name = schema.merge_engine
    ignore_delete = schema.options.get_option(IGNORE_DELETE)
    if name == "deduplicate":
        return Deduplicate(user_sequence(schema), ignore_delete)
    if name == "partial-update":
        remove_on_delete = schema.options.get_option(REMOVE_RECORD_ON_DELETE)
        order, groups = user_sequence(schema), merge_groups(schema)
        return PartialUpdate(schema.fields, groups, order, ignore_delete, remove_on_delete)
    raise UnsupportedFeature(
        f"option {MERGE_ENGINE.key!r} = {name!r} is not supported; the engines are deduplicate and partial-update"
    )


def newest_decides(options: Options) -> bool:
    """Whether what becomes of a key depends on its newest record alone, the one of the greatest sequence number, so
    that older versions need not be read."""
    engine, order = options.get_option(MERGE_ENGINE), options.get_option(SEQUENCE_FIELD)
    # Of retracts that were stored before they were to be ignored, the next record before counts.
    return engine == "deduplicate" and not order and not options.get_option(IGNORE_DELETE)
