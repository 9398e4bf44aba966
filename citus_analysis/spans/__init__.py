"""Traces of distributed statements, from logs alone."""
