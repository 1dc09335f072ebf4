"""stelmo in other libraries: one short file for each, imported only when used, with its own extra."""

SAVED = {"state", "precision"}  # what vectors depend on, kept in others' files; device and threads belong to a machine
