"""Name and shape of every weight of a model, from its configuration alone, without building it."""

from __future__ import annotations

from collections.abc import Iterator

from albert_tf.config import AlbertConfig
from albert_tf.head_config import HeadConfig

Shape = tuple[int, ...]


def weight_shapes(config: AlbertConfig, head: HeadConfig) -> dict[str, Shape]:
    """Shape of each weight by its canonical name, in the order of the models' `named_weights`.

    Matrices are as the layers use them: [inputs, outputs].
    """
    shapes = dict(_embeddings(config))
    for place, sublayers in block_places(config):
        for sublayer in sublayers:
            shapes.update(_attention(place, config) if sublayer == "attention" else _feed_forward(place, config))
    if head.pooler:
        shapes.update(_dense("encoder/pooler", config.hidden_size, config.hidden_size))
    shapes.update(_head(config, head))
    return shapes


def block_places(config: AlbertConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each block's name, such as "encoder/group_0/inner_0", with the sublayers whose weights are stored under it."""
    shared = {"all": ("attention", "feed_forward"), "attention": ("attention",), "ffn": ("feed_forward",), "none": ()}[
        config.parameter_sharing
    ]
    single = tuple(name for name in ("attention", "feed_forward") if name not in shared)
    seen: set[int] = set()
    for layer in range(config.num_hidden_layers):
        group = config.group_of_layer(layer)
        for inner in range(config.inner_group_num):
            places = []
            if shared and group not in seen:
                places.append((f"encoder/group_{group}/inner_{inner}", shared))
            if single:
                places.append((f"encoder/layer_{layer}/inner_{inner}", single))
            yield from sorted(places, key=lambda place: place[1])  # attention first
        seen.add(group)


def _embeddings(config: AlbertConfig) -> Iterator[tuple[str, Shape]]:
    of_words = config.embedding_factorization == "words"
    width = config.hidden_size if of_words else config.embedding_size
    yield "encoder/embeddings/word_embeddings", (config.vocab_size, config.embedding_size)
    if of_words:
        yield "encoder/embeddings/word_projection", (config.embedding_size, config.hidden_size)
    yield "encoder/embeddings/position_embeddings", (config.max_position_embeddings, width)
    yield "encoder/embeddings/token_type_embeddings", (config.type_vocab_size, width)
    yield from _layer_norm("encoder/embeddings/layer_norm", width)
    if config.embedding_projection:
        yield from _dense("encoder/embedding_projection", config.embedding_size, config.hidden_size)


def _attention(place: str, config: AlbertConfig) -> Iterator[tuple[str, Shape]]:
    for name in ("query", "key", "value", "output"):
        yield from _dense(f"{place}/attention/{name}", config.hidden_size, config.hidden_size)
    yield from _layer_norm(f"{place}/attention/layer_norm", config.hidden_size)


def _feed_forward(place: str, config: AlbertConfig) -> Iterator[tuple[str, Shape]]:
    yield from _dense(f"{place}/feed_forward/intermediate", config.hidden_size, config.intermediate_size)
    yield from _dense(f"{place}/feed_forward/output", config.intermediate_size, config.hidden_size)
    yield from _layer_norm(f"{place}/feed_forward/layer_norm", config.hidden_size)


def _head(config: AlbertConfig, head: HeadConfig) -> Iterator[tuple[str, Shape]]:
    hidden = config.hidden_size
    if head.head in ("pretraining", "masked_lm"):
        width = hidden if config.embedding_factorization == "words" else config.embedding_size
        yield from _dense("masked_lm/dense", hidden, width)
        yield from _layer_norm("masked_lm/layer_norm", width)
        yield "masked_lm/output_bias", (config.vocab_size,)
    if head.head == "pretraining":
        yield from _dense("sentence_order", hidden, 2)
    elif head.head in ("classifier", "token_classifier"):
        yield from _dense(head.head, hidden, head.num_labels or 0)
    elif head.head in ("regression", "multiple_choice"):
        yield from _dense(head.head, hidden, 1)
    elif head.head == "span":
        yield from _dense("span", hidden, 2)
    elif head.head == "conditional_span":
        yield from _dense("conditional_span/start", hidden, 1)
        yield from _dense("conditional_span/end_hidden", 2 * hidden, hidden)
        yield from _layer_norm("conditional_span/end_layer_norm", hidden)
        yield from _dense("conditional_span/end", hidden, 1)
        yield from _dense("conditional_span/answerable_hidden", 2 * hidden, hidden)
        yield "conditional_span/answerable/kernel", (hidden, 1)  # the original's has no bias


def _dense(name: str, inputs: int, outputs: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}/kernel", (inputs, outputs)
    yield f"{name}/bias", (outputs,)


def _layer_norm(name: str, width: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}/gamma", (width,)
    yield f"{name}/beta", (width,)
