"""The parts of an experiment file, by subject: the meaning and the permitted values of each field."""
