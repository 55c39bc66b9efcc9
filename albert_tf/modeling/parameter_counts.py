"""How many parameters a configuration has, by part, without building the model."""

from __future__ import annotations

from albert_tf.config import AlbertConfig


def count_parameters(config: AlbertConfig) -> dict[str, int]:
    """Parameters of `AlbertPretrainingModel(config)` by part: those of the encoder, then those of the two heads."""
    vocab, narrow, wide, inner = config.vocab_size, config.embedding_size, config.hidden_size, config.intermediate_size
    attention = 4 * (wide * wide + wide) + 2 * wide  # query, key, value, output; LayerNorm
    feed_forward = wide * inner + inner + inner * wide + wide + 2 * wide
    shared = config.num_hidden_groups * config.inner_group_num
    single = config.num_hidden_layers * config.inner_group_num
    sharing = config.parameter_sharing
    return {
        "embeddings": (vocab + config.max_position_embeddings + config.type_vocab_size + 2) * narrow,
        "embedding_projection": narrow * wide + wide if config.embedding_projection else 0,
        "attention": attention * (shared if sharing in ("all", "attention") else single),
        "feed_forward": feed_forward * (shared if sharing in ("all", "ffn") else single),
        "pooler": wide * wide + wide,
        "masked_lm": wide * narrow + narrow + 2 * narrow + vocab,  # the output product is the embedding table
        "sentence_order": 2 * wide + 2,
    }
