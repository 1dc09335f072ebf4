"""stelmo inside other people's tools: one short file for each, imported only when used, behind its own extra."""
