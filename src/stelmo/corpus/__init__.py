"""Text files → a numbered corpus → training windows."""
