"""What is recorded beside the load: samplers and perf, here or by ssh."""
