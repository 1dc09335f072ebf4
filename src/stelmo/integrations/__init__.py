"""stelmo in other libraries: one short file for each, imported only when used, with its own extra."""
