"""Numbers that others published, and the audit of result tables."""
