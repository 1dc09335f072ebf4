"""Sentences → all layers of a biLM."""
