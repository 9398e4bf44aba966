"""The evidence for verdicts on limits: measurements of each resource, waits, balance, variance."""
