"""Local lookup files: where, below this level, is the older version of a key?

A data file is turned into a local key-value file on its first use (``LookupLevels``), which the processes of a node
share (``LookupDirectory``), and is asked there, in batches.
"""

from paimon_spark.lookup.lookup_directory import LookupDirectory
from paimon_spark.lookup.lookup_file_cache import LookupFileCache, process_cache
from paimon_spark.lookup.lookup_levels import Bucket, LookupHits, LookupLevels
from paimon_spark.lookup.stores import HashLookupStore, SortLookupStore
from paimon_spark.lookup.value_processor import ValueProcessor, value_processor

__all__ = [
    "Bucket",
    "HashLookupStore",
    "LookupDirectory",
    "LookupFileCache",
    "LookupHits",
    "LookupLevels",
    "SortLookupStore",
    "ValueProcessor",
    "process_cache",
    "value_processor",
]
