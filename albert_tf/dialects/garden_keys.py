"""Where checkpoints of the TensorFlow Model Garden keep each weight of an ALBERT model: paths in a tree of objects.

A key is the shortest way through the tree to its variable, so that one model has other keys in another surrounding:
alone (`encoder/...`, `model/...`), in a pretrainer or a classifier (`model/encoder_network/...`,
`model/layer_with_weights-0/...`). Keras numbers the layers of a functional model that have weights: word, position and
segment embeddings, LayerNorm, the projection where widths differ, the one transformer layer, the pooler. The word table
of a pretrainer is nearest as `masked_lm/embedding_table`.

Sources, in tensorflow/models: official/nlp/modeling/networks/albert_encoder.py (`albert_transformer_encoder.py` before
2021), official/nlp/modeling/layers/transformer_encoder_block.py, masked_lm.py, cls_head.py,
official/nlp/modeling/models/bert_pretrainer.py, bert_classifier.py, bert_token_classifier.py, bert_span_labeler.py,
official/nlp/tools/tf2_albert_encoder_checkpoint_converter.py.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping

from albert_tf.config import AlbertConfig
from albert_tf.dialects.tables import SAME, Entry, Transform, split_into_heads
from albert_tf.head_config import HeadConfig
from albert_tf.weight_shapes import Shape

VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_SLOT = "/.OPTIMIZER_SLOT/"

# (regular expression, reason) of what checkpoints hold beside weights.
IGNORED = (
    (re.escape(OBJECT_GRAPH), "description of the tree of objects"),
    (r".*/\.OPTIMIZER_SLOT/.*", "slot of an optimizer"),
    (r"(.*/)?optimizer/.*", "state of an optimizer"),
    (r"(save_counter|global_step)/.*", "counter"),
)

_TRANSFORMER = re.compile(r"((?:.*/)?)layer_with_weights-(\d+)/_attention_layer/_query_dense/kernel")
_MASKED_LM = re.compile(r"((?:.*/)?)output_bias\.Sbias")
# Of version 2.2: the head is a model of its own, whose three layers with weights are numbered.
_EARLY_MASKED_LM = re.compile(r"((?:.*/)?)layer_with_weights-2/bias")
_SENTENCE = re.compile(r"((?:.*/)?classification_heads/0/)out_proj/kernel")
_CLASSIFIER = re.compile(r"((?:.*/)?layer_with_weights-1/)out_proj/kernel")
_NESTED = re.compile(r"((?:.*/)?layer_with_weights-[12]/layer_with_weights-0)/kernel")
_TOKEN_CLASSIFIER = re.compile(r"((?:.*/)?layer_with_weights-1)/kernel")
_POOLER_OF_ITEMS = "next_sentence..pooler_dense"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """The keys of one checkpoint, without what all of them end with.

    Attributes:
      encoder: what stands before the encoder's layers, such as "encoder/".
      transformer: number of the transformer layer: 5, or 4 without a projection.
      word_embeddings: of the word table.
      attention_output: of attention's output layer, below the transformer layer.
      pooler: of the pooler that the head reads.
      masked_lm: weight of the masked-LM head -> its key; empty if there is none.
      sentence: of the layer on the pooler, or on the sequence; "" if there is none.
      kinds: heads that `sentence` may be, beside `masked_lm` if that is there.
    """

    encoder: str = "encoder/"
    transformer: int = 5
    word_embeddings: str = "encoder/layer_with_weights-0/embeddings"
    attention_output: str = "_attention_layer/_output_dense"
    pooler: str = "encoder/layer_with_weights-6"
    masked_lm: Mapping[str, str] = dataclasses.field(default_factory=dict)
    sentence: str = ""
    kinds: tuple[str, ...] = ()

    @property
    def own_pooler(self) -> str:
        """Key of the encoder's own pooler."""
        return f"{self.encoder}layer_with_weights-{self.transformer + 1}"


def variables(tensors: Mapping[str, Shape]) -> dict[str, Shape]:
    """Key without its ending -> shape of each variable that is no optimizer's."""
    return {
        key.removesuffix(VALUE): shape for key, shape in tensors.items() if key.endswith(VALUE) and _SLOT not in key
    }


def has_garden_layers(keys: Collection[str]) -> bool:
    """Whether keys are those of a transformer of the Model Garden's, ALBERT's or another's."""
    return OBJECT_GRAPH in keys and any(_TRANSFORMER.fullmatch(key.removesuffix(VALUE)) for key in keys)


def find_layout(shapes: Mapping[str, Shape]) -> Layout:
    """Layout of a checkpoint with these variables.

    Raises:
      ValueError: if it is no ALBERT encoder's.
    """
    found = [match for key in shapes if (match := _TRANSFORMER.fullmatch(key))]
    if len(found) != 1:
        what = f"{len(found)}: is it a BERT model's?" if found else "none"
        raise ValueError(f"an ALBERT encoder of the Model Garden has one transformer layer, this checkpoint {what}")
    encoder, number = found[0][1], int(found[0][2])
    if number not in (4, 5):
        raise ValueError(f"layer_with_weights-{number} is the transformer layer, in ALBERT it is 4 or 5")
    layer = f"{encoder}layer_with_weights-{number}"
    early = "_attention_output_dense"
    masked_lm = _find_masked_lm(shapes)
    table = f"{encoder}layer_with_weights-0/embeddings"
    if table not in shapes:  # nearer on another way
        table = masked_lm.get("embedding_table", table)
    sentence, kinds, pooler = _find_sentence(shapes, bool(masked_lm))
    return Layout(
        encoder=encoder,
        transformer=number,
        word_embeddings=table,
        attention_output=early if f"{layer}/{early}/kernel" in shapes else "_attention_layer/_output_dense",
        pooler=pooler or f"{encoder}layer_with_weights-{number + 1}",
        masked_lm=masked_lm,
        sentence=sentence,
        kinds=kinds,
    )


def canonical_layout(config: AlbertConfig, head: HeadConfig) -> Layout:
    """Layout that the Model Garden's converter writes, with the head as its current models have it."""
    number = 5 if config.embedding_projection else 4
    sentence = {
        "pretraining": "model/classification_heads/0/out_proj",
        "classifier": "model/layer_with_weights-1/out_proj",
        "regression": "model/layer_with_weights-1/out_proj",
        "token_classifier": "model/layer_with_weights-1",
        "span": "model/layer_with_weights-1/layer_with_weights-0",
    }.get(head.head, "")
    return Layout(
        transformer=number,
        pooler=f"encoder/layer_with_weights-{number + 1}",
        masked_lm=_masked_lm("masked_lm/"),
        sentence=sentence,
    )


def entries(config: AlbertConfig, head: HeadConfig, layout: Layout) -> Iterator[Entry]:
    """An entry for each weight of `weight_shapes(config, head)`."""
    for entry in _entries(config, head, layout):
        yield dataclasses.replace(entry, theirs=entry.theirs + VALUE)


def _entries(config: AlbertConfig, head: HeadConfig, layout: Layout) -> Iterator[Entry]:
    layers = f"{layout.encoder}layer_with_weights-"
    embeddings = "encoder/embeddings"
    yield Entry(f"{embeddings}/word_embeddings", layout.word_embeddings)
    yield Entry(f"{embeddings}/position_embeddings", f"{layers}1/embeddings")
    yield Entry(f"{embeddings}/token_type_embeddings", f"{layers}2/embeddings")
    yield from _layer_norm(f"{embeddings}/layer_norm", f"{layers}3")
    if config.embedding_projection:
        yield from _dense("encoder/embedding_projection", f"{layers}4")
    yield from _block(f"{layers}{layout.transformer}", layout.attention_output, config)
    yield from _dense("encoder/pooler", layout.pooler)
    if head.head in ("pretraining", "masked_lm"):
        for name in ("dense/kernel", "dense/bias", "layer_norm/gamma", "layer_norm/beta", "output_bias"):
            yield Entry(f"masked_lm/{name}", layout.masked_lm[name])
    if head.head not in ("encoder", "masked_lm"):
        yield from _dense("sentence_order" if head.head == "pretraining" else head.head, layout.sentence)


def _block(theirs: str, attention_output: str, config: AlbertConfig) -> Iterator[Entry]:
    into_heads, bias_of_heads, out_of_heads = split_into_heads(config)
    ours = "encoder/group_0/inner_0"
    for name in ("query", "key", "value"):
        key = f"{theirs}/_attention_layer/_{name}_dense"
        yield from _dense(f"{ours}/attention/{name}", key, into_heads, bias_of_heads)
    yield from _dense(f"{ours}/attention/output", f"{theirs}/{attention_output}", out_of_heads)
    yield from _layer_norm(f"{ours}/attention/layer_norm", f"{theirs}/_attention_layer_norm")
    for name in ("intermediate", "output"):
        yield from _dense(f"{ours}/feed_forward/{name}", f"{theirs}/_{name}_dense")
    yield from _layer_norm(f"{ours}/feed_forward/layer_norm", f"{theirs}/_output_layer_norm")


def _dense(ours: str, theirs: str, kernel: Transform = SAME, bias: Transform = SAME) -> Iterator[Entry]:
    yield Entry(f"{ours}/kernel", f"{theirs}/kernel", kernel)
    yield Entry(f"{ours}/bias", f"{theirs}/bias", bias)


def _layer_norm(ours: str, theirs: str) -> Iterator[Entry]:
    yield Entry(f"{ours}/gamma", f"{theirs}/gamma")
    yield Entry(f"{ours}/beta", f"{theirs}/beta")


def _masked_lm(beginning: str) -> dict[str, str]:
    names = ("dense/kernel", "dense/bias", "layer_norm/gamma", "layer_norm/beta", "embedding_table")
    return {"output_bias": f"{beginning}output_bias.Sbias", **{name: f"{beginning}{name}" for name in names}}


def _find_masked_lm(shapes: Collection[str]) -> dict[str, str]:
    for key in shapes:
        if match := _MASKED_LM.fullmatch(key):
            return _masked_lm(match[1])
    for key in shapes:
        match = _EARLY_MASKED_LM.fullmatch(key)
        if match and f"{match[1]}layer_with_weights-1/gamma" in shapes:
            layers = f"{match[1]}layer_with_weights-"
            dense = {f"dense/{leaf}": f"{layers}0/{leaf}" for leaf in ("kernel", "bias")}
            norm = {f"layer_norm/{leaf}": f"{layers}1/{leaf}" for leaf in ("gamma", "beta")}
            return {**dense, **norm, "output_bias": key}
    return {}


def _find_sentence(shapes: Mapping[str, Shape], has_masked_lm: bool) -> tuple[str, tuple[str, ...], str]:
    """Key of the layer on the pooler or the sequence, the heads that it may be, and the pooler before it, or "".

    The pooler of a head of its own goes before the encoder's, which such a head does not read.
    """
    saved_pooler = _POOLER_OF_ITEMS if f"{_POOLER_OF_ITEMS}/kernel" in shapes else ""
    for key in shapes:
        if match := _SENTENCE.fullmatch(key) or (None if has_masked_lm else _CLASSIFIER.fullmatch(key)):
            pooler = f"{match[1]}dense" if f"{match[1]}dense/kernel" in shapes else saved_pooler
            return f"{match[1]}out_proj", ("pretraining",) if has_masked_lm else _classifiers(shapes[key]), pooler
    for key, shape in shapes.items():
        match = _NESTED.fullmatch(key)
        if match and f"{match[1].removesuffix('0')}1/gamma" not in shapes:  # else it is the early masked-LM head
            kinds = ("classifier", "span") if shape[-1:] == (2,) else _classifiers(shape)
            return match[1], ("pretraining",) if has_masked_lm else kinds, ""
        if not has_masked_lm and (match := _TOKEN_CLASSIFIER.fullmatch(key)):
            return match[1], ("token_classifier",), ""
    return "", (), saved_pooler


def _classifiers(kernel: Shape) -> tuple[str, ...]:
    return ("regression",) if kernel[-1:] == (1,) else ("classifier",)
