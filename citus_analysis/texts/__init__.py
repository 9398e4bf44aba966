"""Texts that people read and programs write: numbers, tables, names, YAML."""
