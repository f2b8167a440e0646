"""VectorRange and DeletionVectorRef: where deletion vectors are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VectorRange:
    """Where in an index file the vector of the data file named ``file`` is.

    ``offset`` is where its entry begins, and ``length`` what the format records for it (see
    :mod:`paimon_spark.metadata.deletion_vector`). ``cardinality`` counts deleted rows; None where unknown.
    """

    file: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, slots=True)
class DeletionVectorRef:
    """A :class:`VectorRange` with the full path of its index file: all that a reader needs."""

    file: str
    index_path: str
    offset: int
    length: int
    cardinality: int | None = None
