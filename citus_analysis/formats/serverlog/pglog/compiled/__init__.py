"""The compiled part of the reader of server logs, and the definitions that Python shares with it."""
