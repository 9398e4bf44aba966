"""Estimates with intervals: means, medians, ratios, percentiles."""
