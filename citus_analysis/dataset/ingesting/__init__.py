"""From files to tables: read in parallel, written part by part, derived."""
