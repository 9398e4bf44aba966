"""Analyses of traces: profiles, composition of response times, tails."""
