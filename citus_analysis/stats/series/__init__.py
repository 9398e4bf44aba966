"""Values in the order of time: warm-up, autocorrelation, drift."""
