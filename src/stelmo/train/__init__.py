"""Corpus → biLM: the pretraining loop and its parts. Knows no command line."""
