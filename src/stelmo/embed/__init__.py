"""Sentences → vectors: the loaded model, the module for other people's networks, files of any length."""
