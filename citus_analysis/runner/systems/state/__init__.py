"""What the runner changes on servers, and how it is put back: shards, settings, tables."""
