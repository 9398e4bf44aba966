"""Traces for other tools: Perfetto and OpenTelemetry."""
