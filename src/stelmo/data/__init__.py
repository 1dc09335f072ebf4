"""A corpus of numbered words → chunks, counts, windows. Knows no model and no files."""
