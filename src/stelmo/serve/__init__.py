"""A model and an index of word uses → an HTTP service and a web page. Knows no command line."""
