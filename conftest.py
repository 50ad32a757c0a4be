"""Fixtures that every test can ask for: `kafka`, `registry`, `stack` (see headgate.common.testing.cluster)."""

pytest_plugins = ["headgate.common.testing.cluster"]
