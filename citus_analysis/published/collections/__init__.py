"""Collections of results that others publish: what their files state, and which gaps their repeats decide."""
