"""The command line: one file for each verb. It parses, calls the library once, and prints."""
