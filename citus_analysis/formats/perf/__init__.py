"""Reports of perf."""
