"""Operational laws and queueing networks."""
