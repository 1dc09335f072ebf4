"""A corpus → an index of word uses, searched, mapped and clustered. Knows no HTTP and no terminal."""
