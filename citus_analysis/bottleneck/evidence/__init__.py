"""What the verdicts on limits rest on: measurements of each resource, waits, balance, variance."""
