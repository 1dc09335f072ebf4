"""Coreference (CoNLL-2012; Pradhan et al. 2012): which expressions of a document refer to the same entity?"""
