"""Comparisons of runs: verdicts, families of verdicts, tables."""
