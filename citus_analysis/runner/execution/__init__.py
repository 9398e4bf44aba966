"""Runs as processes: prepared, measured, collected, judged."""
