"""What the compiled scanner must give, in regular expressions and Python: too slow for logs, but easy to read."""
