"""Claims: sentences with a form that can be judged by runs, or by the printed numbers of a publication."""
