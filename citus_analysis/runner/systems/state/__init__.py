"""Changes that the runner makes to servers, and their restoration: shards, settings, tables."""
