"""Probabilities of words and perplexity."""
