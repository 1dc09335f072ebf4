"""Probes: what linear classifiers and cosines find in word vectors, compared with controls that see no context."""
