"""Bytes of a source: opened once, decompressed, decoded."""
