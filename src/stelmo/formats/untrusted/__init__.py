"""Readers of container formats whose files are not trusted."""
