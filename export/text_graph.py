"""The tokenizer as TensorFlow operations, for a SavedModel that takes strings."""

from __future__ import annotations

from albert_tf.tokenizer import AlbertTokenizer
from albert_tf.tokenizer_base import Tokenizer
from albert_tf.wordpiece import WordPieceTokenizer
from export.sentencepiece_graph import SentencePieceGraph
from export.token_graph import TextGraph
from export.wordpiece_graph import WordPieceGraph


def make_text_graph(tokenizer: Tokenizer, max_seq_length: int) -> TextGraph:
    """A tokenizer in a graph.

    Args:
      tokenizer: the tokenizer to restate.
      max_seq_length: see `TextGraph`.

    Raises:
      TypeError: for a kind of tokenizer that has no graph.
    """
    if isinstance(tokenizer, AlbertTokenizer):
        return SentencePieceGraph(tokenizer, max_seq_length)
    if isinstance(tokenizer, WordPieceTokenizer):
        return WordPieceGraph(tokenizer, max_seq_length)
    raise TypeError(f"no graph restates a {type(tokenizer).__name__}")
