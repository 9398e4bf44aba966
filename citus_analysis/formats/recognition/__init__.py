"""Which sources a file holds: their deliveries, outputs and formats."""
