"""Everything on disk ↔ models and vectors. Each foreign format's quirks stay in the file named after it."""
