"""Results that others collect and publish: one file for each system, or one summary for each experiment."""
