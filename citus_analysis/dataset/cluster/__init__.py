"""Clusters that run the tasks of an ingest."""
