"""Citus analysis: from raw benchmark files to tables, traces, statistics and reports."""
