"""Execution of the report notebooks, and their export."""
