"""Question answering (Rajpurkar et al. 2016): which words of a passage answer a question?"""
