"""Training: losses, metrics, optimizers, strategies, and the loop that joins them."""
