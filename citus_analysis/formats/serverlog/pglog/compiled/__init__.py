"""The compiled part of the reader of server logs, and what Python shares with it."""
