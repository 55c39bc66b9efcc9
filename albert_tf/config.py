"""AlbertConfig: the shape of a model, the published sizes, and `albert_config.json` in and out.

Source: Lan et al. 2020, "ALBERT: A Lite BERT for Self-supervised Learning of Language Representations"
(arXiv 1909.11942), Table 1 and section 3.1. Field names are the original repository's.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Mapping
from typing import Any, Literal, Self

from albert_tf.json_object import JsonConfig

ParameterSharing = Literal["all", "attention", "ffn", "none"]
PARAMETER_SHARING: tuple[ParameterSharing, ...] = ("all", "attention", "ffn", "none")
EmbeddingFactorization = Literal["all", "words"]
EMBEDDING_FACTORIZATIONS: tuple[EmbeddingFactorization, ...] = ("all", "words")
HIDDEN_ACTIVATIONS = ("gelu", "gelu_exact", "relu", "tanh", "linear")

# Keys of the published files that have no effect at these values, and are refused at any other.
_INERT_KEYS: Mapping[str, tuple[Any, ...]] = {
    "net_structure_type": (0,),
    "gap_size": (0,),
    "num_memory_blocks": (0,),
    "layers_to_keep": ([],),
    "down_scale_factor": (1,),
}

# Far beyond any model: a damaged file must not ask for hours of building or for all the memory there is.
_MOST = {"num_hidden_layers": 1000, "inner_group_num": 100, "vocab_size": 2**31 - 1}
_LARGEST = 1 << 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlbertConfig(JsonConfig):
    """Shape of an ALBERT model. Checks itself when made and never changes.

    Attributes:
      vocab_size: pieces in the vocabulary (V).
      embedding_size: width of the embedding table (E).
      hidden_size: width of the layers (H).
      num_hidden_layers: depth (L).
      num_hidden_groups: groups of layers; layers of one group share their weights.
      inner_group_num: distinct blocks that one layer applies one after the other.
      num_attention_heads: attention heads (N); each is H / N wide.
      intermediate_size: width of the feed-forward sublayer.
      hidden_act: activation of the feed-forward sublayer; "gelu" is the tanh approximation, as in the original,
        "gelu_exact" the error-function form.
      hidden_dropout_prob: dropout probability of embeddings and sublayer outputs, in [0, 1).
      attention_probs_dropout_prob: dropout probability of the attention probabilities, in [0, 1).
      max_position_embeddings: longest sequence, in tokens.
      type_vocab_size: number of segments.
      initializer_range: standard deviation of the truncated normal that weights start from.
      parameter_sharing: what layers of one group share (section 3.1, Table 4): "all", "attention", "ffn" (only that
        sublayer with its LayerNorm), or "none".
      embedding_projection: whether a matrix from width E to width H follows the embeddings. If it is not named, only
        where the two differ, as in the original.
      embedding_factorization: what is E wide: "all" embeddings, as in the original, or only those of "words", which a
        matrix without bias takes to width H before positions and segments are added, as in albert_zh.
    """

    vocab_size: int = 30000
    embedding_size: int = 128
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_hidden_groups: int = 1
    inner_group_num: int = 1
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    parameter_sharing: ParameterSharing = "all"
    embedding_projection: bool | None = None
    embedding_factorization: EmbeddingFactorization = "all"

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type == "int":
                if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                    raise ValueError(f"{field.name} must be a whole number of at least 1, got {value!r}")
                if value > (most := _MOST.get(field.name, _LARGEST)):
                    raise ValueError(f"{field.name} must be at most {most}, got {reprlib.repr(value)}")
            elif field.type == "float":
                if isinstance(value, bool) or not isinstance(value, (int, float)):
                    raise ValueError(f"{field.name} must be a number, got {value!r}")
                try:
                    object.__setattr__(self, field.name, float(value))
                except OverflowError:  # a whole number of hundreds of digits
                    raise ValueError(f"{field.name} must be a number, got {reprlib.repr(value)}") from None
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name} must be in [0, 1), got {getattr(self, name)}")
        if not 0.0 < self.initializer_range < float("inf"):
            raise ValueError(f"initializer_range must be a positive number, got {self.initializer_range}")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size must be a multiple of num_attention_heads, got {self.hidden_size} and "
                f"{self.num_attention_heads}"
            )
        if self.num_hidden_groups > self.num_hidden_layers:
            raise ValueError(
                f"num_hidden_groups must be at most num_hidden_layers, got {self.num_hidden_groups} and "
                f"{self.num_hidden_layers}"
            )
        if self.hidden_act not in HIDDEN_ACTIVATIONS:
            raise ValueError(f"hidden_act must be one of {', '.join(HIDDEN_ACTIVATIONS)}, got {self.hidden_act!r}")
        if self.parameter_sharing not in PARAMETER_SHARING:
            raise ValueError(
                f"parameter_sharing must be one of {', '.join(PARAMETER_SHARING)}, got {self.parameter_sharing!r}"
            )
        if self.embedding_factorization not in EMBEDDING_FACTORIZATIONS:
            raise ValueError(
                f"embedding_factorization must be one of {', '.join(EMBEDDING_FACTORIZATIONS)}, got "
                f"{self.embedding_factorization!r}"
            )
        self._check_embedding_projection()

    def _check_embedding_projection(self) -> None:
        of_words = self.embedding_factorization == "words"
        if self.embedding_projection is None:
            differs = self.embedding_size != self.hidden_size
            object.__setattr__(self, "embedding_projection", differs and not of_words)
        elif not isinstance(self.embedding_projection, bool):
            raise ValueError(f"embedding_projection must be true, false or null, got {self.embedding_projection!r}")
        if of_words:
            if self.embedding_projection:
                raise ValueError('embedding_projection must be false where embedding_factorization is "words"')
        elif not self.embedding_projection and self.embedding_size != self.hidden_size:
            raise ValueError(
                "embedding_projection may be false only where embedding_size equals hidden_size, got "
                f"{self.embedding_size} and {self.hidden_size}"
            )

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads

    def group_of_layer(self, layer: int) -> int:
        """Group whose weights layer `layer` (counted from 0) uses.

        Computed in floating point as the original does: `int(i / L * groups)`. In exact arithmetic a few pairs, such
        as 14 groups of 18 layers, would give other groups and would not load the original's checkpoints.
        """
        if not 0 <= layer < self.num_hidden_layers:
            raise ValueError(f"layer must be in [0, {self.num_hidden_layers}), got {layer}")
        return int(layer / self.num_hidden_layers * self.num_hidden_groups)

    @classmethod
    def named(cls, name: str, **changes: Any) -> Self:
        """Published configuration: "base", "large", "xlarge", "xxlarge", each also as "base_v1" or "base_v2".

        A plain name means v2 (no dropout). "tiny_zh" and "small_zh" are the small Chinese models of albert_zh in the
        original's layout. "albert_" may stand before each. `changes` replaces single fields.

        Raises:
          ValueError: for an unknown name or field.
        """
        plain = name.removeprefix("albert_")
        if plain in _CHINESE:
            return cls.from_dict({**_CHINESE[plain], **changes})
        size, _, version = plain.partition("_")
        if size not in _PUBLISHED or version not in ("", "v1", "v2"):
            known, chinese = ", ".join(_PUBLISHED), ", ".join(_CHINESE)
            raise ValueError(
                f"unknown configuration {name!r}: give one of {known}, plain or with _v1 or _v2, or one of {chinese}"
            )
        fields = dict(_PUBLISHED[size])
        if version == "v1" and size != "xxlarge":
            fields.update(hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
        return cls.from_dict({**fields, **changes})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Config from a mapping; an unknown key is refused by name.

        Raises:
          ValueError: for an unknown key, a value out of range, or an inert key of the original at an active value.
        """
        for key, allowed in _INERT_KEYS.items():
            if key in values and values[key] not in allowed:
                raise ValueError(f"{key} is supported at {allowed[0]!r} only, got {values[key]!r}")
        return super().from_dict({key: value for key, value in values.items() if key not in _INERT_KEYS})

    def replace(self, **changes: Any) -> Self:
        """Copy with some fields changed. `embedding_projection` follows the other fields again unless it is named."""
        values = self.to_dict()
        if {"embedding_size", "hidden_size", "embedding_factorization"} & changes.keys():
            values["embedding_projection"] = None
        return type(self).from_dict({**values, **changes})


_PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    "base": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    "large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
    "xlarge": {"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 8192},
    "xxlarge": {"hidden_size": 4096, "num_hidden_layers": 12, "num_attention_heads": 64, "intermediate_size": 16384},
}

# albert_zh's albert_tiny_google and albert_small_google: without dropout, GELU in its tanh form.
_CHINESE: Mapping[str, Mapping[str, Any]] = {
    "tiny_zh": {
        "vocab_size": 21128,
        "hidden_size": 312,
        "num_hidden_layers": 4,
        "num_attention_heads": 12,
        "intermediate_size": 1248,
    },
    "small_zh": {
        "vocab_size": 21128,
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    },
}
