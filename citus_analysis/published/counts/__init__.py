"""Means of counts: which they are, and whether whole numbers can have them."""
