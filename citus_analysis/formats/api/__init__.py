"""What a format is, which formats there are, and what every format hands out."""
