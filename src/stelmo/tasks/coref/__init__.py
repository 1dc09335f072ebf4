"""Coreference (CoNLL-2012; Pradhan et al. 2012): which words of a document name the same thing?"""
