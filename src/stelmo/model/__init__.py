"""nn.Modules: the biLM, its language-model head, and the mix of its layers. Knows no files and no strings."""
