"""Files that the runner writes: artefacts, descriptions, outcomes, results."""
