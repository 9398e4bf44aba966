"""The interface of formats, their registry, and helpers for the tables that they yield."""
