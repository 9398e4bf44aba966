"""What formats are made of: their interface and registry, texts as columns, times, and the outputs in a text."""
