"""Several outputs of tools in one text: where each begins and ends, and what a shell printed between them.

:func:`citus_analysis.formats.outputs.finding.find_outputs` divides a text by the openings that formats declare.
"""
