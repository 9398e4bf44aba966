"""Rows of the texts of sysstat that are printed plainly, as columns of numbers."""
