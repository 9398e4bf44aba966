"""The design of a study whose files follow no convention, read from names and contents."""
