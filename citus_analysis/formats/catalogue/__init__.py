"""Files that describe an experiment: settings, nodes, shards and outcomes."""
