"""Samplers of hosts: iostat, vmstat, dstat, and loops over kernel files."""
