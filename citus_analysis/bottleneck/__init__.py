"""Which resource limits a system."""
