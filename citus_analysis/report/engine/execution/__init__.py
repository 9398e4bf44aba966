"""Execution of notebooks by papermill in a helper process."""
