"""Times as programs print them, and the zones that they are of."""
