"""Plotly figures: tables and results in, figures out."""
