"""The parts of an experiment file, by subject: what each field is, and which values it may have."""
