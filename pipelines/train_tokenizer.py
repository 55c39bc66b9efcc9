"""Trains a vocabulary as ALBERT's: writes spiece.model and tokenizer_config.json.

By default the text has one sentence a line; --input_format takes other text. Special pieces get the ids of the
published vocabularies: <pad> 0, <unk> 1, [CLS] 2, [SEP] 3, [MASK] 4. The same text and flags give the same bytes.

Example:
  python -m pipelines.train_tokenizer --input='corpus/*.txt' --output_dir=tokenizer --vocab_size=8000
"""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Iterator
from typing import Any

from absl import flags, logging

from albert_tf import door
from pipelines import reading_flags

with door.group("Input and output"):
    INPUT = flags.DEFINE_list(
        "input", None, "Text files, also .gz, .bz2 or .zst: names, patterns or folders, separated by commas."
    )
    OUTPUT_DIR = flags.DEFINE_string("output_dir", None, "Folder to make. It appears when everything is done.")
    OVERWRITE = flags.DEFINE_boolean("overwrite", False, "Replace a folder with content at --output_dir.")

with door.group("How text is read"):
    reading_flags.define()

with door.group("Vocabulary"):
    VOCAB_SIZE = flags.DEFINE_integer("vocab_size", 30000, "Pieces to make, special ones included.")
    CHARACTER_COVERAGE = flags.DEFINE_float("character_coverage", 0.99995, "Share of characters that get a piece.")
    MAX_SENTENCE_LENGTH = flags.DEFINE_integer("max_sentence_length", 4192, "Longest line to use, in bytes.")
    SAMPLE_MEGABYTES = flags.DEFINE_integer(
        "sample_megabytes",
        100,
        "Most text to use, in MB after normalisation: of more, lines are drawn evenly, the same in every run. "
        "SentencePiece needs about 20 MB of memory for each: 2 GB for the default.",
    )
    NUM_THREADS = flags.DEFINE_integer("num_threads", 2, "Threads. The scores' last digits depend on their number.")

with door.group("How the tokenizer prepares text"):
    LOWER_CASE = flags.DEFINE_boolean("lower_case", True, "Whether letters are lowered.")
    STRIP_ACCENTS = flags.DEFINE_boolean("strip_accents", True, "Whether accents are dropped (after NFKD).")
    BAKE_NORMALIZER = flags.DEFINE_boolean(
        "bake_normalizer",
        True,
        "Whether spiece.model holds case and accents in its own normaliser, so that any SentencePiece client gives the "
        "same ids (but for --split_digit_comma). Takes some seconds.",
    )
    SPLIT_DIGIT_COMMA = flags.DEFINE_boolean("split_digit_comma", True, 'Whether "2010," is cut into number and comma.')

_SMALL_BYTES = 1 << 20
_FAULTS_SHOWN = 10


def main() -> None:
    from albert_tf import normalizer
    from albert_tf.tokenizer import TokenizerConfig
    from pipelines import files, readers, vocabulary

    verbose = bool(flags.FLAGS.verbosity >= 1)
    with door.checking_flags():
        settings = vocabulary.VocabularySettings(
            vocab_size=VOCAB_SIZE.value,
            character_coverage=CHARACTER_COVERAGE.value,
            max_sentence_length=MAX_SENTENCE_LENGTH.value,
            sample_megabytes=SAMPLE_MEGABYTES.value,
            num_threads=NUM_THREADS.value,
        )
    config = TokenizerConfig(
        lower_case=LOWER_CASE.value, strip_accents=STRIP_ACCENTS.value, split_digit_comma=SPLIT_DIGIT_COMMA.value
    )
    reading = reading_flags.settings()
    inputs = files.find_files(INPUT.value)
    faults: list[readers.BadInput] = []
    began = time.monotonic()
    # Checked before the work, filled after it: training answers no signal, so nothing unfinished must lie about.
    advice = "name another folder, or pass --overwrite to replace it"
    door.check_directory(OUTPUT_DIR.value, replace=OVERWRITE.value, advice=advice)
    reading_flags.warn(inputs, reading)
    lines = _read(inputs, reading, faults.append, f"training {settings.vocab_size} pieces")
    try:
        trained, counts = vocabulary.train_vocabulary(lines, settings, config, verbose=verbose)
    except vocabulary.UnfitTextError as error:
        raise door.UserError(f"{','.join(INPUT.value)}: {error}") from error
    with door.whole_directory(OUTPUT_DIR.value, replace=OVERWRITE.value, advice=advice) as folder:
        model = (
            normalizer.bake_normalizer(trained.model_proto, config) if BAKE_NORMALIZER.value else trained.model_proto
        )
        door.write_whole(files.join(folder, files.MODEL_FILE), model)
        door.write_whole(files.join(folder, files.CONFIG_FILE), config.to_json())
    for fault in faults[:_FAULTS_SHOWN]:
        logging.warning("left out a document: %s, line %d, byte %d, %s", *fault)
    if len(faults) > _FAULTS_SHOWN:
        logging.warning("left out %s more", door.counted(len(faults) - _FAULTS_SHOWN, "document"))
    rows = [("pieces", trained.vocab_size), *sorted(counts.items(), key=lambda item: item[0].startswith("dropped"))]
    door.print_table(OUTPUT_DIR.value, ("what", "count"), rows)
    logging.info("trained in %.1f s", time.monotonic() - began)
    folder = shlex.quote(OUTPUT_DIR.value)
    texts = shlex.quote(",".join(INPUT.value))
    command = f"python -m pipelines.build_pretraining_data --input={texts}{reading_flags.given()}"
    print(f"next: {command} --tokenizer={folder} --output_dir=data")


def _read(inputs: Any, reading: Any, note: Any, next_step: str) -> Iterator[str]:
    """Sentences of all files, one file after the other."""
    from pipelines import files, readers, word_marks

    total = sum(file.size for file in inputs)
    # A small input is read in a moment; a fault in it then stands alone on the terminal.
    shown = door.progress(total=total, description="reading", unit="bytes") if total > _SMALL_BYTES else None
    with shown or contextlib.nullcontext() as bar:
        for file in inputs:
            lines = files.read_lines(file.path)
            sentences = readers.read_sentences(_watched(lines, file.size, bar), file.path, reading, note=note)
            yield from map(word_marks.without_marks, sentences)
    if shown:
        logging.info("read %s; %s, which shows no progress", door.counted(len(inputs), "file"), next_step)


def _watched(lines: Iterator[bytes], size: int, bar: Any) -> Iterator[bytes]:
    """The lines, while `bar` (None: nothing) advances by `size` bytes; a compressed file's content is larger."""
    if bar is None:
        yield from lines
        return
    left, waiting = size, 0
    for line in lines:
        waiting += len(line)
        if waiting > _SMALL_BYTES:
            bar.advance(min(waiting, left))
            left, waiting = left - min(waiting, left), 0
        yield line
    bar.advance(left)


if __name__ == "__main__":
    door.run(main, required=["input", "output_dir"])
