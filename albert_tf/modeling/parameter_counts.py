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
    of_words = config.embedding_factorization == "words"
    width = wide if of_words else narrow  # of positions, segments and their LayerNorm, and of the masked-LM transform
    word_projection = narrow * wide if of_words else 0
    return {
        "embeddings": vocab * narrow
        + word_projection
        + (config.max_position_embeddings + config.type_vocab_size + 2) * width,
        "embedding_projection": narrow * wide + wide if config.embedding_projection else 0,
        "attention": attention * (shared if sharing in ("all", "attention") else single),
        "feed_forward": feed_forward * (shared if sharing in ("all", "ffn") else single),
        "pooler": wide * wide + wide,
        "masked_lm": wide * width + width + 2 * width + vocab,  # the output product is the embedding table
        "sentence_order": 2 * wide + 2,
    }
