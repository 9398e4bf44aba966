"""Datasets on object stores: reached by fsspec, committed by one immutable object after the other."""
