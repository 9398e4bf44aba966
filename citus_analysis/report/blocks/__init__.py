"""Blocks of every page: the findings of the audit, and the set-up of the runs."""
