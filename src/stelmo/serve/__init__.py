"""A model and an index of word uses → an HTTP service and a page. Knows no command line."""
