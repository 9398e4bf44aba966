"""Texts as columns: lines, CSV, JSON, samples."""
