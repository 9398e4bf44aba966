"""The records of server logs on their way to traces."""
