"""Fixtures of the two referees: Paimon's Java core and pypaimon."""

pytest_plugins = ["tests.java.fixtures", "tests.peers.fixtures"]
