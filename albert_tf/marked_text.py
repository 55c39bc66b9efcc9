"""Text with the marker [MASK]: what a fill-mask query is, as ids.

The tokenizer never gives a special id, whatever a text says; that is right for text from outside. A fill-mask query is
the one place where "[MASK]" is meant: the text is cut at the markers, the parts are tokenised, and the mask id stands
between them. This module imports no TensorFlow; `export.text_graph` does the same inside a graph.
"""

from __future__ import annotations

from albert_tf.tokenizer import WORD_BOUNDARY, AlbertTokenizer
from albert_tf.tokenizer_base import MASK_PIECE, Tokenizer

MARKER = MASK_PIECE
DROPPED = -1


def glued_ids(tokenizer: Tokenizer) -> list[int]:
    """For each id of the vocabulary the id that stands for it where no space precedes, [V].

    SentencePiece starts every text with a word boundary. Behind a marker without a space, as in "[MASK]s" or "[MASK].",
    there is none: "▁s" becomes "s" where the vocabulary has it, a bare "▁" is `DROPPED`, the rest stays. Other
    tokenizers' pieces do not say what stands before them, so all stay.
    """
    glued = list(range(tokenizer.vocab_size))
    if not isinstance(tokenizer, AlbertTokenizer):
        return glued
    for token_id in glued.copy():
        piece = tokenizer.id_to_piece(token_id)
        if piece == WORD_BOUNDARY:
            glued[token_id] = DROPPED
        elif piece.startswith(WORD_BOUNDARY) and token_id not in tokenizer.special_ids:
            bare = tokenizer.piece_to_id(piece[1:])
            glued[token_id] = token_id if bare == tokenizer.unk_id else bare
    return glued


class MarkedTextEncoder:
    """Ids of texts with markers. Keeps the table of `glued_ids`, which takes a moment to make."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._glued = glued_ids(tokenizer)

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, with the mask id at every "[MASK]"; without a marker the same as `Tokenizer.encode`."""
        ids: list[int] = []
        for number, part in enumerate(text.split(MARKER)):
            part_ids = self.tokenizer.encode(part)
            if number:
                ids.append(self.tokenizer.mask_id)
                if part_ids and not part[0].isspace():
                    first = self._glued[part_ids[0]]
                    part_ids = ([] if first == DROPPED else [first]) + part_ids[1:]
            ids += part_ids
        return ids
