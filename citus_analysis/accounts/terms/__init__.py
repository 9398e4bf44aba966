"""Terms of a difference, their intervals, what they are of throughput, and the statements that carry them."""
