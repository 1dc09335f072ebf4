"""Long-running work that writes files."""
