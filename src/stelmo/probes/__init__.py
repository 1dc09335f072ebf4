"""What word vectors know of meaning: probes over given vectors. Knows no model; the vectors come from a function."""
