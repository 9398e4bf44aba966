"""Execution of runs: preparation, measurement, collection of files, judgement."""
