"""How much arithmetic a training step needs: its matrix products, counted from the shape of the model.

The compiler counts operations too, but those in the body of a loop once, however often it runs; a rematerialised step
is such a loop over the layers.
"""

from __future__ import annotations

from albert_tf.config import AlbertConfig


def step_operations(
    config: AlbertConfig, *, batch_size: int, max_seq_length: int, max_predictions_per_seq: int, remat: bool = False
) -> int:
    """Floating-point operations of a step's matrix products; a product of [a, b] and [b, c] has 2abc.

    The way back takes twice what the way forward takes, once for the inputs' gradients and once for the weights'.

    Args:
      config: shape of the model.
      batch_size: examples (B).
      max_seq_length: tokens of each (S), padding included.
      max_predictions_per_seq: predictions of each (P).
      remat: whether the layers are computed a second time on the way back.
    """
    hidden, inner, embedding = config.hidden_size, config.intermediate_size, config.embedding_size
    tokens, predictions = batch_size * max_seq_length, batch_size * max_predictions_per_seq
    # Query, key, value and output; the feed-forward's two; scores and context, each with all S positions.
    block = tokens * (8 * hidden**2 + 4 * hidden * inner + 4 * max_seq_length * hidden)
    layers = config.num_hidden_layers * config.inner_group_num * block
    of_words = config.embedding_factorization == "words"
    projection = 2 * tokens * embedding * hidden if config.embedding_projection or of_words else 0
    # From H to E, and from E to all words; where only words are factorized from H to H first.
    heads = 2 * predictions * (hidden * embedding + embedding * config.vocab_size)
    heads += 2 * predictions * hidden**2 if of_words else 0
    heads += 2 * batch_size * (hidden**2 + 2 * hidden)  # pooler and sentence order
    return 3 * (layers + projection + heads) + (layers if remat else 0)
