"""Strings → sentences, tokens, ids. Knows no tensor and no model."""
