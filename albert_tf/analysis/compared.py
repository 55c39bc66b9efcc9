"""The models that the paper compares, as configurations, with the figures that it prints for them.

Source: Lan et al. 2020 (arXiv 1909.11942), Tables 1, 3 and 4. Only the paper's rounded figures are written down here;
every other number of the analysis is computed from a configuration.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from albert_tf.config import PARAMETER_SHARING, AlbertConfig, ParameterSharing
from albert_tf.head_config import HeadConfig

Group = Literal["sizes", "ablations", "own"]
SIZES = ("base", "large", "xlarge", "xxlarge")
EMBEDDING_SIZES = (64, 128, 256, 768)

# BERT in ALBERT's terms: E = H, and nothing is shared. The vocabulary is the paper's 30,000; with the 30,522 pieces of
# the published BERT models base would be 109 million, whichever parts are counted, and not the paper's 108.
BERT: Mapping[str, Mapping[str, Any]] = {
    "base": {
        "vocab_size": 30000,
        "embedding_size": 768,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "parameter_sharing": "none",
    },
    "large": {
        "vocab_size": 30000,
        "embedding_size": 1024,
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
        "parameter_sharing": "none",
    },
}

# Millions of parameters, as the paper prints them: Table 1, then Tables 3 and 4, base by E and sharing.
_SIZES_IN_PAPER: Mapping[str, int] = {
    "BERT base": 108,
    "BERT large": 334,
    "ALBERT base": 12,
    "ALBERT large": 18,
    "ALBERT xlarge": 60,
    "ALBERT xxlarge": 235,
}
_ABLATIONS_IN_PAPER: Mapping[tuple[int, ParameterSharing], int] = {
    (64, "none"): 87,
    (128, "none"): 89,
    (256, "none"): 93,
    (768, "none"): 108,
    (64, "all"): 10,
    (128, "all"): 12,
    (256, "all"): 16,
    (768, "all"): 31,
    (128, "attention"): 64,
    (768, "attention"): 83,
    (128, "ffn"): 38,
    (768, "ffn"): 57,
}


_PRETRAINING = HeadConfig()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compared:
    """One model of the comparison.

    Attributes:
      name: what the tables call it.
      group: "sizes" and "ablations" are the paper's, "own" the user's.
      config: its shape.
      head: its head.
      paper_millions: millions of parameters that the paper prints for it; None where it prints none.
    """

    name: str
    group: Group
    config: AlbertConfig
    head: HeadConfig = _PRETRAINING
    paper_millions: int | None = None


def papers_models() -> tuple[Compared, ...]:
    """BERT base and large, ALBERT base to xxlarge, then base by embedding size and sharing."""
    shapes = {f"BERT {size}": AlbertConfig.from_dict(BERT[size]) for size in BERT}
    shapes |= {f"ALBERT {size}": AlbertConfig.named(size) for size in SIZES}
    sizes = tuple(
        Compared(name=name, group="sizes", config=config, paper_millions=_SIZES_IN_PAPER[name])
        for name, config in shapes.items()
    )
    base = AlbertConfig.named("base")
    ablations = tuple(
        Compared(
            name=f"base, E={width}, {SHARED[sharing]}",
            group="ablations",
            config=base.replace(embedding_size=width, parameter_sharing=sharing),
            paper_millions=_ABLATIONS_IN_PAPER.get((width, sharing)),
        )
        for width in EMBEDDING_SIZES
        for sharing in PARAMETER_SHARING
    )
    return sizes + ablations


SHARED: Mapping[ParameterSharing, str] = {
    "all": "all shared",
    "attention": "attention shared",
    "ffn": "FFN shared",
    "none": "not shared",
}
