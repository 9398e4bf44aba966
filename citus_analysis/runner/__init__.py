"""From an experiment file to launched processes to the artefact tree that ingest reads."""
