"""From a notebook and a dataset to a page: papermill, HTML, tables, links."""
