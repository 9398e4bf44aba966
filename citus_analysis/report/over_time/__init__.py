"""Wording of reports over several datasets."""
