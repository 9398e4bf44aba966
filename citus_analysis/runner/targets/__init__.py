"""Servers under test: embedded, a cluster that is there already, or existing files."""
