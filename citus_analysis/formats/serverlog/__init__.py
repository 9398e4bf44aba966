"""Server logs of PostgreSQL: the text log with any prefix, csvlog and jsonlog."""
