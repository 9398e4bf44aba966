"""Which child statement ran which task of which parent, and how the clocks differ."""
