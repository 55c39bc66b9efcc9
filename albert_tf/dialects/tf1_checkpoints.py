"""What TensorFlow 1 checkpoints of ALBERT, the original's and albert_zh's, have in common: heads and slots.

The heads' names are those of google-research/albert: run_pretraining.py, classifier_utils.py, race_utils.py and
squad_utils.py; albert_zh's run_pretraining.py and run_classifier.py have the first two.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from albert_tf.dialects.tables import SAME, TRANSPOSED, Transform
from albert_tf.head_config import HEADS, POOLED, HeadConfig
from albert_tf.weight_files.checkpoint import find_prefix, read_index
from albert_tf.weight_files.weight_file import TensorInfo

# Our layers -> theirs, whose weights end as ours do ("/kernel").
HEAD_LAYERS = {
    "masked_lm/dense": "cls/predictions/transform/dense",
    "masked_lm/layer_norm": "cls/predictions/transform/LayerNorm",
    "conditional_span/start": "start_logits/dense",
    "conditional_span/end_hidden": "end_logits/dense_0",
    "conditional_span/end_layer_norm": "end_logits/LayerNorm",
    "conditional_span/end": "end_logits/dense_1",
    "conditional_span/answerable_hidden": "answer_class/dense_0",
    "conditional_span/answerable": "answer_class/dense_1",
}
# Our layers -> theirs, which are pairs of `output_weights` [outputs, inputs] and `output_bias`.
_OUTPUTS = {
    "sentence_order": "cls/seq_relationship/",
    "classifier": "",
    "regression": "",
    "multiple_choice": "",
    "token_classifier": "",
    "span": "cls/squad/",
}
# What a checkpoint with a fine-tuned head has, and the heads that it can be.
_TUNED: Mapping[str, tuple[str, ...]] = {
    "output_weights": ("classifier", "regression", "multiple_choice", "token_classifier"),
    "cls/squad/output_weights": ("span",),
    "start_logits/dense/kernel": ("conditional_span",),
}
_MASKED_LM, _SENTENCE_ORDER = "cls/predictions/output_bias", "cls/seq_relationship/output_weights"
_POOLER = "bert/pooler/dense/kernel"
_HEAD_TENSORS = r"(output_weights|output_bias|cls/.*|start_logits/.*|end_logits/.*|answer_class/.*)"
# A model that was fine-tuned out of a TF-Hub module has its variables in the module's scope.
MODULE = "module/"

IGNORED = (
    (r"(.*/)?(adam|lamb)_[mv]", "optimizer's slot"),
    (r".*/(Adam|Adam_1|AdamWeightDecayOptimizer(_1)?|LAMBOptimizer(_1)?|Momentum)", "optimizer's slot"),
    (r"(.*/)?(beta1_power|beta2_power)", "optimizer's counter"),
    (r"global_step", "counter of training steps"),
)

ORIGINAL, ALBERT_ZH, KERAS_PORT = "original", "albert_zh", "Keras port"
_LAYOUTS = (
    (re.compile(r"(module/)?bert/(.*/)?layer_normalization(_\d+)?/gamma"), KERAS_PORT),
    (re.compile(r"(module/)?bert/encoder/transformer/group_\d+/inner_group_\d+/.*"), ORIGINAL),
    (re.compile(r"bert/encoder/layer_shared/.*"), ALBERT_ZH),
)


def layout(names: Collection[str]) -> str | None:
    """Whose names these are: ORIGINAL, ALBERT_ZH, KERAS_PORT, or None if nobody's that are known."""
    return next((kind for pattern, kind in _LAYOUTS if any(pattern.fullmatch(name) for name in names)), None)


def layout_at(path: str) -> str | None:
    """As `layout`, of the checkpoint at a path; None too if there is none, or it cannot be read."""
    try:
        return layout(read_index(find_prefix(path)).entries)
    except (OSError, ValueError):
        return None


def head_tensor(name: str) -> tuple[str, Transform] | None:
    """Their name and transform of a weight of a head, by our name; None if it is no head's."""
    layer, _, leaf = name.rpartition("/")
    if name == "masked_lm/output_bias":
        return _MASKED_LM, SAME
    if layer in HEAD_LAYERS:
        return f"{HEAD_LAYERS[layer]}/{leaf}", SAME
    if layer in _OUTPUTS:
        scope = _OUTPUTS[layer]
        return (f"{scope}output_weights", TRANSPOSED) if leaf == "kernel" else (f"{scope}output_bias", SAME)
    return None


def find_head(
    tensors: Mapping[str, TensorInfo], path: str, wanted: str | None, sidecar: HeadConfig | None = None
) -> tuple[HeadConfig, tuple[str, ...]]:
    """Head of a checkpoint, and what a user should know of the choice.

    A fine-tuned head goes before those of pretraining that are left in the checkpoint.

    Args:
      tensors: of the checkpoint, without the scope of a module.
      path: of the checkpoint, for messages.
      wanted: the head that the user names, or None.
      sidecar: what the `head_config.json` beside the checkpoint says, or None.

    Raises:
      ValueError: if the checkpoint has not the wanted head, or has several and none is wanted.
    """
    notes: list[str] = []
    if wanted is not None and wanted not in HEADS:
        raise ValueError(f"head must be one of {', '.join(HEADS)}, got {wanted!r}")
    possible = _possible_heads(tensors)
    chosen: str | None = wanted or (sidecar.head if sidecar is not None else None)
    if chosen is not None and chosen not in possible:
        raise ValueError(f"{path}: has no tensors of the head {chosen!r}; its heads can be: {', '.join(possible)}")
    if chosen is None:
        tuned = [name for name in _TUNED if name in tensors]
        if len(tuned) > 1:
            raise ValueError(f"{path}: has {len(tuned)} heads ({', '.join(tuned)}): name one of {', '.join(possible)}")
        chosen = possible[0]
        if chosen == "multiple_choice" and "regression" in possible:
            notes.append(
                "its head of one output is taken for multiple choice (RACE); name the head regression if it is one "
                "(STS-B), which is stored under the same names"
            )
        elif chosen == "classifier":
            notes.append(
                "its head is taken for a classifier of whole texts; name the head token_classifier if it is one"
            )
    if sidecar is not None and chosen == sidecar.head:
        if sidecar.num_labels is not None and sidecar.num_labels != _outputs(tensors):
            raise ValueError(
                f"{path}: has {_outputs(tensors)} labels, but head_config.json beside it says {sidecar.num_labels}"
            )
        return sidecar, tuple(notes)
    labels = _outputs(tensors) if chosen in ("classifier", "token_classifier") else None
    pooler = _POOLER in tensors or chosen in POOLED
    return HeadConfig.from_dict({"head": chosen, "num_labels": labels, "pooler": pooler}), tuple(notes)


def _possible_heads(tensors: Mapping[str, TensorInfo]) -> list[str]:
    """Heads that a checkpoint can be loaded with; what it was made for comes first."""
    heads = [head for name, found in _TUNED.items() if name in tensors for head in found]
    if "output_weights" in tensors:
        if _outputs(tensors) == 1:
            heads.sort(key=lambda head: head != "multiple_choice")
        else:
            heads = [head for head in heads if head not in ("regression", "multiple_choice")]
    if _MASKED_LM in tensors:
        heads += (["pretraining"] if _SENTENCE_ORDER in tensors else []) + ["masked_lm"]
    return [*heads, "encoder"]


def _outputs(tensors: Mapping[str, TensorInfo]) -> int:
    shape = tensors["output_weights"].shape
    return shape[0] if shape else 0


def ignored_tensors(tensors: Collection[str], used: Collection[str]) -> Iterator[tuple[str, str]]:
    """Regular expressions of what is no part of the model, with reasons.

    Args:
      tensors: names in the checkpoint.
      used: names that the table has.
    """
    yield from IGNORED
    used = set(used)
    slots = re.compile("|".join(pattern for pattern, _ in IGNORED))
    for name in tensors:
        if name in used or slots.fullmatch(name):
            continue
        first = name.removesuffix("_1")
        if re.fullmatch(f"({MODULE})?{_HEAD_TENSORS}", name):
            yield re.escape(name), "of a head that is left out"
        elif first != name and first in used:
            yield re.escape(name), f"a second copy beside {first}"
