"""Named entities: CoNLL columns → BIO tags, conlleval F1."""
