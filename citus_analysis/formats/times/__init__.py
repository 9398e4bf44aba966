"""Times as programs print them, and their time zones."""
