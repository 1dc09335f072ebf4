"""Pure tensor functions: the maths of the model. Knows no module, no file, no string."""
