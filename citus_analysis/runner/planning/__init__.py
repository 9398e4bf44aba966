"""From an experiment file to the ordered list of runs."""
