"""Messages in other languages than English, and how much of a log was understood."""
