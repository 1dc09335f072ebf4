"""Our own files: model folders, runs, vectors, and folders that grow."""
