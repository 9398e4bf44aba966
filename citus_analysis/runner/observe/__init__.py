"""Recordings during the load: samplers, perf and server statistics, on this machine or by ssh."""
