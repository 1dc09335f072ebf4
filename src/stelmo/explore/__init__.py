"""A corpus → an index of word uses, with search, maps and clusters. Knows no HTTP and no terminal."""
