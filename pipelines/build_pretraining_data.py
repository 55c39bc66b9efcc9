"""Turns text into pretraining examples: TFRecord shards, dataset.json, and copies of the tokenizer's files.

By default the text has one sentence a line and a blank line between documents; --input_format takes other text. The
end of a file ends its document. Documents with the same sentences are used once.

Two forms of records:
  dynamic  two adjacent segments in their order, unmasked. Training draws their order and the masks, anew in each epoch.
  static   the original ALBERT's features, order and masks drawn once; its code and Model Garden read them too.

The bytes depend on text, tokenizer, flags and seed only: not on file names, workers or runner.

Examples:
  python -m pipelines.build_pretraining_data --input='corpus/*.txt' --tokenizer=tokenizer --output_dir=data \\
      --max_seq_length=128 --num_shards=8 --seed=7
  python -m pipelines.build_pretraining_data --input=a.txt,b.txt --tokenizer=albert.model --output_dir=static \\
      --masking=static --dupe_factor=5 --num_workers=2
"""

from __future__ import annotations

import os
import shlex
from typing import Any

from absl import flags, logging

from albert_tf import door
from pipelines import reading_flags

with door.group("Input and output"):
    INPUT = flags.DEFINE_list(
        "input", None, "Text files, also .gz, .bz2 or .zst: names, patterns or folders, separated by commas."
    )
    TOKENIZER = flags.DEFINE_string(
        "tokenizer",
        None,
        "Folder with spiece.model or vocab.txt and tokenizer_config.json, or such a vocabulary alone, for lower case.",
    )
    OUTPUT_DIR = flags.DEFINE_string("output_dir", None, "Folder to make. It appears when everything is done.")
    NUM_SHARDS = flags.DEFINE_integer("num_shards", 8, "Record files to write.")

with door.group("How text is read"):
    reading_flags.define()

with door.group("Examples"):
    MAX_SEQ_LENGTH = flags.DEFINE_integer("max_seq_length", 512, "Longest sequence in tokens, with [CLS] and [SEP].")
    SENTENCE_OBJECTIVE = flags.DEFINE_enum(
        "sentence_objective",
        "sop",
        ["sop", "nsp", "none"],
        "What is learned beside masked words. sop: whether two adjacent segments are exchanged, as ALBERT does; nsp: "
        "whether the second one is of another document, as BERT does; none: nothing, an example is one segment.",
    )
    SHORT_SEQ_PROB = flags.DEFINE_float("short_seq_prob", 0.1, "Share of examples that aim at a shorter length.")
    SEED = flags.DEFINE_integer("seed", 7, "Seed of every random choice.")
    MASKING = flags.DEFINE_enum("masking", "dynamic", ["dynamic", "static"], "When order and masks are drawn.")
    MASKED_LM_PROB = flags.DEFINE_float("masked_lm_prob", 0.15, "Share of positions to predict.")
    MAX_PREDICTIONS_PER_SEQ = flags.DEFINE_integer(
        "max_predictions_per_seq", None, "Most predictions in a sequence. By default masked_lm_prob of max_seq_length."
    )
    MAX_NGRAM = flags.DEFINE_integer("max_ngram", 3, "Longest run of words to mask as one.")
    DUPE_FACTOR = flags.DEFINE_integer("dupe_factor", 1, "Copies of the text with other masks; static records only.")
    ORIGINAL_COMPATIBLE = flags.DEFINE_boolean(
        "original_compatible",
        False,
        "Choose segments and budgets as the original ALBERT, for comparison: one length for a whole document, second "
        "segments of other documents where a chunk is one sentence, long pairs cut off, at most 20 predictions. Static "
        "records only.",
    )

with door.group("Workers"):
    NUM_WORKERS = flags.DEFINE_integer("num_workers", 1, "Processes that work at once on this machine.")
    RUNNER = flags.DEFINE_string("runner", "local", "local, or a Beam runner such as DataflowRunner or FlinkRunner.")
    BEAM_OPTIONS = flags.DEFINE_multi_string(
        "beam_option", [], "Flag for Beam, such as --beam_option=--flink_master=host:8081. May be repeated."
    )


_MOST_UNKNOWN = 0.02  # share of the tokens; where a vocabulary fits, it is far below 1 %
_LEAST_SHARE = 0.97  # of the tokens that are in the examples
_FEWEST_STRANGERS = 0.4  # share of the examples; less is no chance, but a lack of documents


def main() -> None:
    from pipelines import data_directory, files

    settings, reading = _settings(), reading_flags.settings()
    tokenizer = files.read_tokenizer(TOKENIZER.value)
    reading_flags.warn(files.find_files(INPUT.value), reading)
    log = data_directory.build_data_directory(
        INPUT.value,
        tokenizer,
        OUTPUT_DIR.value,
        settings,
        reading=reading,
        runner=RUNNER.value,
        num_workers=NUM_WORKERS.value,
        beam_options=BEAM_OPTIONS.value,
        verbose=flags.FLAGS.verbosity >= 1,
    )
    _report(OUTPUT_DIR.value, log)


def _settings() -> Any:
    """Settings from the flags, checked."""
    from pipelines import example_settings, running

    cores = os.cpu_count() or 1
    most = max(4, 2 * cores)
    if not 1 <= NUM_WORKERS.value <= most:
        raise door.UsageError(
            f"num_workers must be in [1, {most}] on this machine with {cores} core(s), got {NUM_WORKERS.value}"
        )
    if BEAM_OPTIONS.value and RUNNER.value == running.LOCAL_RUNNER:
        raise door.UsageError(f"beam_option {BEAM_OPTIONS.value[0]} is for another --runner; the local one has none")
    if NUM_WORKERS.value > 1 and RUNNER.value != running.LOCAL_RUNNER:
        raise door.UsageError(f"num_workers is for --runner=local, got runner {RUNNER.value}; use --beam_option")
    with door.checking_flags():
        return example_settings.ExampleSettings(
            max_seq_length=MAX_SEQ_LENGTH.value,
            masking=MASKING.value,
            num_shards=NUM_SHARDS.value,
            seed=SEED.value,
            short_seq_prob=SHORT_SEQ_PROB.value,
            masked_lm_prob=MASKED_LM_PROB.value,
            max_predictions_per_seq=MAX_PREDICTIONS_PER_SEQ.value,
            max_ngram=MAX_NGRAM.value,
            dupe_factor=DUPE_FACTOR.value,
            sentence_objective=SENTENCE_OBJECTIVE.value,
            original_compatible=ORIGINAL_COMPATIBLE.value,
        )


def _report(output: str, log: dict[str, Any]) -> None:
    counts = log["counts"]
    if log["bad_input"]:
        first = log["bad_input"][0]
        logging.warning(
            "left out %s as bad input, the first: %s, line %d, byte %d, %s; all are in build.log.json",
            door.counted(len(log["bad_input"]), "document"),
            *first.values(),
        )
    rows = [(name.replace("_", " "), value) for name, value in counts.items() if isinstance(value, int)]
    rows += [
        (f"tokens dropped: {reason.replace('_', ' ')}", value) for reason, value in counts["tokens_dropped"].items()
    ]
    rows += [(f"n-grams of {size} words", value) for size, value in counts.get("ngrams", {}).items()]
    door.print_table(output, ("what", "count"), [row for row in rows if row[1]])
    share = (counts["tokens_out"] - counts.get("tokens_repeated", 0)) / max(1, counts["tokens_in"])
    unknown = counts["tokens_unknown"] / max(1, counts["tokens_in"])
    if unknown > _MOST_UNKNOWN:
        logging.warning(
            "%.1f %% of the tokens are unknown to the vocabulary: was it trained on text of this kind%s?",
            100 * unknown,
            "" if flags.FLAGS.word_separator else ", and is there a character between words (--word_separator)",
        )
    strangers = counts.get("examples_with_stranger", 0)
    if SENTENCE_OBJECTIVE.value == "nsp" and strangers < _FEWEST_STRANGERS * counts["examples"]:
        logging.warning(
            "only %d of %d examples have a second segment of another document, where half should; nsp needs many "
            "documents of like size: are there blank lines between them?",
            strangers,
            counts["examples"],
        )
    level = logging.INFO if share >= _LEAST_SHARE or ORIGINAL_COMPATIBLE.value else logging.WARNING
    logging.log(level, "%.2f %% of the tokens are in the examples; %.1f s", 100 * share, log["seconds"])
    folder = shlex.quote(output)
    print(f"next: python -m pipelines.inspect_data --data_dir={folder}")
    print(
        f"then: python -m albert_tf.pretrain with --data_dir={folder}, or held-out text with --eval_data_dir={folder}"
    )


if __name__ == "__main__":
    door.run(main, required=["input", "tokenizer", "output_dir"])
