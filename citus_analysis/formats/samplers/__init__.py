"""Samplers of hosts: iostat and vmstat."""
