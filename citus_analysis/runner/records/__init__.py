"""What the runner remembers and writes: journal, artefacts, outcomes, status."""
