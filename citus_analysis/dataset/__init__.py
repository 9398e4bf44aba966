"""Identity of files, ingest, derived tables, and reading them back."""
