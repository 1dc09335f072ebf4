"""Model files of other software. Each format has its own file."""
