"""Which tests run under one Spark only: those whose answer no version of Spark can change."""

from __future__ import annotations

import pyspark
import pytest

from tests.sizes import SOAK

ALL = SOAK or not pyspark.__version__.startswith("4.0.")
"""Whether this is the newest Spark, under which all tests run, or the long run, in which nothing is left out."""

newest_only = pytest.mark.skipif(not ALL, reason="the newest Spark tells as much")
