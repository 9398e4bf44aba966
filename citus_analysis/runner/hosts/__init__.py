"""Programs on this machine and, by ssh, on others."""
