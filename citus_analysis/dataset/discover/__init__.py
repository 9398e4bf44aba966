"""Which files there are, what they are about, and what is to be done with each."""
