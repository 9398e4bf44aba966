"""Files of a dataset: the manifest, Parquet parts and their integrity."""
