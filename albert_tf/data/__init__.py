"""Shards to batches: the order of examples, and masks drawn on the fly."""
