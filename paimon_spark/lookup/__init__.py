"""Local lookup files: where, below this level, is the older version of a key?

A data file is turned into a local key-value file on its first use (``LookupLevels``), which the processes of a node
share (``LookupDirectory``), and is asked there, in batches.
"""

from paimon_spark.lookup.stores import HashLookupStore, SortLookupStore

__all__ = ["HashLookupStore", "SortLookupStore"]
