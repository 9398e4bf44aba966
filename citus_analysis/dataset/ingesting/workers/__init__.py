"""Threads and processes that an ingest shares its work among."""
