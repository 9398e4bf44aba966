"""Scalability: speedup, models, operational laws."""
