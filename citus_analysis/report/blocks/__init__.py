"""Blocks that a page has whatever it reports: what the audit found, and the set-up of the runs."""
