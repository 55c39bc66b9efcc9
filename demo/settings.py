"""What the demo trains and how: one frozen set of numbers, and the versions that its folder is keyed by."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Sequence
from typing import Any

from albert_tf.config import AlbertConfig
from demo import corpus
from demo.commands import ROOT
from demo.workspace import digest_of_sources

PACKAGES_OF_OURS = ("albert_tf", "demo", "export", "pipelines")
_OTHER_PACKAGES = ("sentencepiece", "tensorflow_text", "ai_edge_litert")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DemoSettings:
    """The recipe. In three and a half minutes on two cores it gets the model off the unigram plateau.

    What made the difference, in nats below the context-free bound at held-out [MASK] positions, each tried once with
    about a million training tokens:

    * short sequences, since the model learns anew for each position where a word's neighbours are: 16 tokens 0.30,
      24 tokens 0.16, 32 tokens 0.02;
    * a low learning rate: AdamW at 5e-4 0.36, at 1e-3 0.30, at 2e-3 less than 0.2; LAMB stayed a little behind;
    * initial weights that suit narrow layers: 0.03 or 0.05 0.30, 0.1 0.26;
    * a narrow feed-forward layer: 256 takes a quarter less time than 512 and learns as much in as many steps.

    Attributes:
      vocab_size: pieces (V).
      max_seq_length: tokens of an example (S).
      embedding_size, hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, initializer_range: of the
        model, as in `AlbertConfig`.
      train_batch_size: examples of a step.
      num_train_steps: steps of the whole training.
      warmup_share: share of the steps over which the learning rate rises.
      optimizer, learning_rate, weight_decay: as in `albert_tf.pretrain`.
      seed: of every draw.
      evaluations: how often held-out text is looked at while training.
      max_eval_examples: held-out examples of these looks; the judgement at the end takes all.
      queries: questions for the exported model; the one that the model is surest about is asked.
    """

    vocab_size: int = 4000
    max_seq_length: int = 20
    embedding_size: int = 64
    hidden_size: int = 128
    num_hidden_layers: int = 2
    num_attention_heads: int = 8
    intermediate_size: int = 256
    initializer_range: float = 0.05
    train_batch_size: int = 56
    num_train_steps: int = 3200
    warmup_share: float = 0.1
    optimizer: str = "adamw"
    learning_rate: float = 7e-4
    weight_decay: float = 0.01
    seed: int = 7
    evaluations: int = 8
    max_eval_examples: int = 1536
    queries: tuple[str, ...] = (
        "The shape [MASK] the output tensor.",
        "Returns a list [MASK] strings.",
        "It must be [MASK] same as the input.",
        "The default value [MASK] None.",
    )

    @property
    def config(self) -> AlbertConfig:
        """Shape of the model: factorized embedding, all layers share one block, no dropout."""
        return AlbertConfig(
            vocab_size=self.vocab_size,
            embedding_size=self.embedding_size,
            hidden_size=self.hidden_size,
            num_hidden_layers=self.num_hidden_layers,
            num_attention_heads=self.num_attention_heads,
            intermediate_size=self.intermediate_size,
            max_position_embeddings=self.max_seq_length,
            initializer_range=self.initializer_range,
        )

    def to_dict(self) -> dict[str, Any]:
        """All fields, ready for JSON."""
        return dataclasses.asdict(self)


def versions(
    names: Sequence[str] = (*corpus.TRAINING_PACKAGES, *corpus.HELD_OUT_PACKAGES, *_OTHER_PACKAGES),
) -> dict[str, str]:
    """Everything besides the settings that the results depend on: Python, packages, and our own sources."""
    found = {source.name: source.version for source in corpus.find_sources(names)}
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "sources": digest_of_sources(ROOT, PACKAGES_OF_OURS),
        **found,
    }


def cores() -> int:
    """Processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
