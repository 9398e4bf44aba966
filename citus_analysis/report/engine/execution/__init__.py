"""Notebooks executed by papermill, in the process that makes reports or in one that helps it."""
