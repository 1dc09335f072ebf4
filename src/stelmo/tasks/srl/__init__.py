"""Semantic roles: the arguments of one predicate → BIO tags, CoNLL-2005 span F1."""
