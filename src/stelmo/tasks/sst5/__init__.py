"""Five-way sentiment: trees → a label 0–4, accuracy."""
