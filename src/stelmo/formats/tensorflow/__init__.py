"""TensorFlow's checkpoint format, read without TensorFlow."""
