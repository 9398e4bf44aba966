"""Samplers of sysstat: sar, sadf, mpstat and pidstat."""
