"""From log records to executions of statements, session by session."""
