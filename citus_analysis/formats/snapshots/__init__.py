"""Snapshots of servers' views: sessions and cumulative counters."""
