"""Inference: questions out of files to batches, a model's outputs to answers and vectors. For the doors and servers."""
