"""Makes sentence vectors of texts with a model's encoder, and tells how similar texts are.

Three things can be asked for:

  vectors     --text or --input alone: the vector of each text, as JSON lines, or in one .npy array with
              --output=NAME.npy
  two texts   --text and --text_b: the cosine of their vectors, in [-1, 1]
  search      --query and --input: for each text of --query the --top_k most similar ones of --input

Every model will do, whatever its head: only the encoder is used. A model that was only pretrained tells topics apart;
one that was fine-tuned on pairs or sentences, meanings.

Examples:
  python -m albert_tf.embed --model=models/base --text='It rained.' --text_b='The rain fell.'
  python -m albert_tf.embed --model=models/base --input=sentences.txt --output=vectors.npy
  python -m albert_tf.embed --model=models/base --query=questions.txt --input=sentences.txt --top_k=3
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from absl import flags

from albert_tf import door, text_flags
from albert_tf.inference import outputs
from albert_tf.inference.row_streams import LINE, chunks, stream_rows
from albert_tf.tasks.tables import Row
from albert_tf.tokenizer_base import check_unicode

if TYPE_CHECKING:
    import numpy as np

    from albert_tf.inference.embedding import Embedder

_COLUMNS = (LINE, "text_b")


def _check(values: Any) -> None:
    text_flags.check(values)
    text_flags.check_readable(values.query)
    text_flags.check_output(values.output, values.query)
    if values.query is not None and values.input is None:
        raise door.UsageError("--query searches --input; give both")
    if values.query == values.input == "-":
        raise door.UsageError("--query and --input cannot both be standard input")
    if _is_array(values.output) and (values.query is not None or values.text_b):
        raise door.UsageError("--output=....npy is for vectors; similarities are written as JSON lines")


def _is_array(path: str | None) -> bool:
    return path is not None and path.lower().endswith(".npy")


def _identity(row: Row, values: Any) -> dict[str, Any]:
    """What says which text is meant: its id, and the text where the command line holds it."""
    found = {"id": text_flags.row_id(row, values.id_column)}
    return {**found, **row.cells} if values.text else found


def write_vectors(embedder: Embedder, values: Any, advance: Callable[[int], None]) -> None:
    """Writes the vectors of all texts, or the cosine of each pair of them."""
    column = LINE if values.text else values.text_column
    as_array = _is_array(values.output)
    with outputs.npy_rows(values.output, embedder.width) if as_array else outputs.json_lines(values.output) as write:
        for rows in chunks(text_flags.read_rows(values, _COLUMNS), values.read_ahead):
            vectors = _vectors(embedder, rows, [row.text(column) for row in rows])
            if values.text_b:
                others = _vectors(embedder, rows, [row.text(_COLUMNS[1]) for row in rows])
                for row, one, other in zip(rows, vectors, others, strict=True):
                    write({**_identity(row, values), "cosine": _cosine(one, other)})
            else:
                for row, vector in zip(rows, vectors, strict=True):
                    write(vector if as_array else {**_identity(row, values), "vector": _numbers(vector)})
            advance(len(rows))


def search(embedder: Embedder, values: Any, advance: Callable[[int], None]) -> None:
    """Writes the most similar texts of the input for each query."""
    from albert_tf.inference.similarity import Nearest

    queries = list(stream_rows(values.query))
    if not queries:
        raise ValueError(f"{values.query}: holds no text to search for")
    texts = [row.text(values.text_column if values.text_column in row.cells else LINE) for row in queries]
    nearest = Nearest(_vectors(embedder, queries, texts), values.top_k)
    with outputs.json_lines(values.output) as write:
        for rows in chunks(text_flags.read_rows(values, _COLUMNS), values.read_ahead):
            found = [row.text(values.text_column) for row in rows]
            items = [(text_flags.row_id(row, values.id_column), text) for row, text in zip(rows, found, strict=True)]
            nearest.add(items, _vectors(embedder, rows, found))
            advance(len(rows))
        for row, text, matches in zip(queries, texts, nearest.matches, strict=True):
            shown = [{"id": item[0], "text": item[1], "cosine": outputs.rounded(cosine)} for item, cosine in matches]
            write({"query": text_flags.row_id(row, None), "text": text, "matches": shown})


def _vectors(embedder: Embedder, rows: Sequence[Row], texts: Sequence[str]) -> np.ndarray:
    """Vectors of the texts of rows; an error names the place of the text that causes it.

    Raises:
      ValueError: for text that is not valid Unicode.
    """
    for row, text in zip(rows, texts, strict=True):
        try:
            check_unicode(text)
        except ValueError as error:
            raise ValueError(f"{row.source}: {error}") from error
    return embedder.vectors(texts)


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    from albert_tf.inference.similarity import cosines

    return outputs.rounded(cosines(one[None], other[None])[0, 0])


def _numbers(vector: np.ndarray) -> list[float]:
    return [outputs.rounded(value) for value in vector.tolist()]


def _define_flags() -> None:
    """Flags of the command; not at import, since other commands use the same names."""
    with door.group("Model"):
        flags.DEFINE_string("model", None, "Model directory, or what another project has written, with its tokenizer.")
        flags.DEFINE_enum(
            "pooling",
            "mean",
            ("cls", "mean"),
            "How tokens become one vector: mean of the last layer's vectors of all tokens, or its vector of [CLS].",
        )
        flags.DEFINE_integer(
            "max_seq_length", None, "Tokens that texts are cut to; by default as many as the model was trained on.", 3
        )
    text_flags.define(
        text="Text to make a vector of. May be repeated.",
        text_b="Second text: prints the cosine of both. Repeated as often as --text.",
        output="File for JSON lines, or for one array float32 [texts, width] if its name ends in .npy; it appears when "
        "it is complete. By default JSON lines on standard output.",
    )
    with door.group("Texts"):
        flags.DEFINE_string("text_column", LINE, "Column of --input with the text, and of --query if that has columns.")
    with door.group("Search"):
        flags.DEFINE_string("query", None, "File of texts to search for, read as --input is; they are kept in memory.")
        flags.DEFINE_integer("top_k", 5, "Texts of --input to print for each query.", 1)


def main() -> None:
    values = flags.FLAGS
    _check(values)
    from albert_tf.inference.embedding import Embedder
    from albert_tf.inference.loaded_model import load

    loaded = load(values.model)
    with door.checking_flags():
        embedder = Embedder(
            loaded.model,
            loaded.tokenizer,
            pooling=values.pooling,
            max_seq_length=values.max_seq_length or loaded.max_seq_length,
            batch_size=values.batch_size,
            sort_by_length=values.sort_by_length,
        )
    is_long = values.input is not None and (values.output is not None or values.query is not None)
    shown = door.progress(description="embedding", unit="texts") if is_long else contextlib.nullcontext()
    with shown as bar:
        act = write_vectors if values.query is None else search
        act(embedder, values, bar.advance if bar else lambda count: None)


if __name__ == "__main__":
    _define_flags()
    door.run(main, required=["model"])
