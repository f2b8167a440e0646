# Needs python3 (3.10 or newer) and make; everything else comes from PyPI, Java included when the machine has none.

PYTHON ?= python3
VENV := .venv
VENV_SPARK40 := .venv-spark40
VENV_PYPAIMON := .venv-pypaimon
SAY := @printf '\n== %s\n'
# These wait for the disk while other tests compute.
FAULTS := tests/faults tests/storage tests/lookup

# $(call run,VENV,SETTINGS): the shell words that start a Python of VENV, with the Java and the Python that Spark uses
run = home="$$($(1)/bin/python -m tests.java.jvm)" && \
	JAVA_HOME="$$home" PYSPARK_PYTHON="$(CURDIR)/$(1)/bin/python" PYSPARK_DRIVER_PYTHON="$(CURDIR)/$(1)/bin/python" \
	$(2) $(1)/bin/python

.PHONY: help demo test lint tests-of-spark-4.0 tests-of-spark tests-of-faults tests-of-all-else soak bench bench-compact bench-lookup bench-spark clean distclean
.DELETE_ON_ERROR:

help:
	@echo 'make demo       three feeds of flights, one table: the whole product in a minute'
	@echo 'make test       lint, then the Spark tests under Spark 4.0 beside the whole suite under the newest Spark'
	@echo 'make lint       ruff and mypy'
	@echo 'make soak       faults, kills, damage and races at full size; an hour or two'
	@echo 'make bench      against pypaimon, its Rust core and Java; the last line is JSON'
	@echo 'make bench-compact  compaction against Java, scans under deletion vectors, the whole path through Spark'
	@echo 'make bench-lookup   the local lookup stores against those of Java'
	@echo 'make bench-spark    scans in Spark: its own parquet reader, paimon_spark.read, the Python source'
	@echo 'make clean      remove what builds and runs leave behind'
	@echo 'make distclean  remove the environments and downloads too'

demo: $(VENV)/.installed
	@$(call run,$(VENV),SPARK_CONF_DIR="$(CURDIR)/conf") examples/flights.py

lint: $(VENV)/.installed
	$(SAY) 'ruff, mypy'
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy

test: lint $(VENV_SPARK40)/.installed $(VENV_PYPAIMON)/.installed
	@$(MAKE) --no-print-directory -k -j 4 tests-of-spark tests-of-spark-4.0 tests-of-faults tests-of-all-else

tests-of-spark-4.0:
	$(SAY) 'the tests of the Spark source, under Spark 4.0'
	@$(call run,$(VENV_SPARK40)) -m pytest tests/spark

tests-of-spark:
	$(SAY) 'the tests of the Spark source, under the newest Spark'
	@$(call run,$(VENV)) -m pytest tests/spark

tests-of-faults:
	$(SAY) 'faults, storages and lookup files'
	@$(call run,$(VENV)) -m pytest $(FAULTS)

tests-of-all-else:
	$(SAY) 'all other tests'
	@$(call run,$(VENV)) -m pytest --ignore tests/spark $(addprefix --ignore ,$(FAULTS))

soak: $(VENV)/.installed
	@$(call run,$(VENV),PAIMON_SOAK=1) -m pytest -s -o faulthandler_timeout=0 \
		tests/faults tests/storage tests/lookup tests/compact tests/table \
		tests/metadata/test_commit.py tests/merge/test_merge_reference.py tests/rows/test_nested_rows.py \
		tests/spark/cluster tests/spark/test_native_golden.py tests/spark/test_native_level0.py

bench: $(VENV)/.installed $(VENV_PYPAIMON)/.installed
	@$(call run,$(VENV)) -m benchmarks

bench-compact: $(VENV)/.installed
	@$(call run,$(VENV)) -m benchmarks.compact

bench-lookup: $(VENV)/.installed
	@$(call run,$(VENV)) -m benchmarks.lookup

bench-spark: $(VENV)/.installed
	@$(call run,$(VENV)) -m benchmarks.spark_scan

# $(call install,VENV,WHAT): a new environment if there is none, and WHAT in it
define install
	$(SAY) 'installing $(1)'
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.10 or newer is needed, not " + sys.version) if sys.version_info < (3, 10) else 0'
	@test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
	@$(1)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@PYTHONWARNINGS=ignore $(1)/bin/python -m pip install --quiet --disable-pip-version-check $(2)
	@touch $@
endef

$(VENV)/.installed: pyproject.toml
	$(call install,$(VENV),--config-settings editable_mode=compat --editable . --group dev)

$(VENV_SPARK40)/.installed: pyproject.toml
	$(call install,$(VENV_SPARK40),--config-settings editable_mode=compat --editable . --group spark40)

$(VENV_PYPAIMON)/.installed: pyproject.toml
	$(call install,$(VENV_PYPAIMON),--group pypaimon)

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf spark-warehouse metastore_db derby.log
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) $(VENV_SPARK40) $(VENV_PYPAIMON) .cache
