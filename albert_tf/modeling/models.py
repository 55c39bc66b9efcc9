"""The models: the encoder with each of its heads, and `make_model`, which takes the right one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import keras

from albert_tf import features
from albert_tf.config import AlbertConfig
from albert_tf.head_config import HeadConfig
from albert_tf.modeling import heads
from albert_tf.modeling.conditional_span import ConditionalSpanHead
from albert_tf.modeling.encoder import ENCODER_INPUTS, AlbertEncoder
from albert_tf.modeling.head_model import AlbertHeadModel, Layers, Tensors

_WITH_POSITIONS = {**AlbertHeadModel.INPUTS, features.MASKED_LM_POSITIONS: "[B, P]"}


class _MaskedLM(AlbertHeadModel):
    """What both models with a masked-LM head share."""

    INPUTS = _WITH_POSITIONS

    @classmethod
    def make_layers(cls, encoder: AlbertEncoder, head_config: HeadConfig, settings: Mapping[str, Any]) -> Layers:
        act = encoder.config.hidden_act
        return {"masked_lm": heads.MaskedLMHead(encoder.embeddings, hidden_act=act, name="masked_lm", **settings)}

    @classmethod
    def apply_layers(
        cls, layers: Layers, encoded: Tensors, inputs: Tensors, *, training: bool | None = None
    ) -> dict[str, Any]:
        logits = layers["masked_lm"](encoded["sequence_output"], inputs[features.MASKED_LM_POSITIONS])
        return {"masked_lm_logits": logits}

    @property
    def masked_lm_head(self) -> heads.MaskedLMHead:
        """The masked-LM head, tied to the encoder's embedding table."""
        return self.get_layer("masked_lm")


@keras.saving.register_keras_serializable("albert_tf")
class AlbertPretrainingModel(_MaskedLM):
    """Encoder and both pretraining heads.

    Inputs besides the encoder's: `masked_lm_positions` int32 [B, P].
    Outputs: `masked_lm_logits` float [B, P, V] and `sentence_order_logits` float [B, 2].
    """

    HEAD = "pretraining"
    HEAD_LAYERS = ("masked_lm", "sentence_order")

    def __init__(self, config: AlbertConfig, head_config: HeadConfig | None = None, **settings: Any) -> None:
        super().__init__(config, head_config or HeadConfig(), **settings)

    @classmethod
    def make_layers(cls, encoder: AlbertEncoder, head_config: HeadConfig, settings: Mapping[str, Any]) -> Layers:
        sentence_order = heads.SentenceOrderHead(name="sentence_order", **settings)
        return {**super().make_layers(encoder, head_config, settings), "sentence_order": sentence_order}

    @classmethod
    def apply_layers(
        cls, layers: Layers, encoded: Tensors, inputs: Tensors, *, training: bool | None = None
    ) -> dict[str, Any]:
        outputs = super().apply_layers(layers, encoded, inputs, training=training)
        return {**outputs, "sentence_order_logits": layers["sentence_order"](encoded["pooled_output"])}

    @property
    def sentence_order_head(self) -> heads.SentenceOrderHead:
        """The sentence-order head."""
        return self.get_layer("sentence_order")


@keras.saving.register_keras_serializable("albert_tf")
class AlbertMaskedLMModel(_MaskedLM):
    """Encoder and masked-LM head alone.

    Inputs besides the encoder's: `masked_lm_positions` int32 [B, P]. Output: `masked_lm_logits` float [B, P, V].
    """

    HEAD = "masked_lm"
    HEAD_LAYERS = ("masked_lm",)


@keras.saving.register_keras_serializable("albert_tf")
class AlbertEncoderModel(AlbertHeadModel):
    """Encoder without a head.

    Outputs: `sequence_output` float [B, S, H] and, if it has a pooler, `pooled_output` float [B, H].
    """

    HEAD = "encoder"
    HEAD_LAYERS = ()

    @classmethod
    def make_layers(cls, encoder: AlbertEncoder, head_config: HeadConfig, settings: Mapping[str, Any]) -> Layers:
        return {"widened_output": heads.WidenedOutput(dtype=settings["dtype"], name="widened_output")}

    @classmethod
    def apply_layers(
        cls, layers: Layers, encoded: Tensors, inputs: Tensors, *, training: bool | None = None
    ) -> dict[str, Any]:
        names = [name for name in ("sequence_output", "pooled_output") if name in encoded]
        return {name: layers["widened_output"](encoded[name]) for name in names}


class _DenseHeadModel(AlbertHeadModel):
    """What the models share whose head is one dense layer of one of the encoder's outputs."""

    LAYER: ClassVar[type[heads.DenseHead]]
    READS: ClassVar[str] = "pooled_output"

    @classmethod
    def make_layers(cls, encoder: AlbertEncoder, head_config: HeadConfig, settings: Mapping[str, Any]) -> Layers:
        units = {} if head_config.num_labels is None else {"units": head_config.num_labels}
        drop = head_config.dropout_prob or 0.0
        return {cls.HEAD: cls.LAYER(dropout_prob=drop, name=cls.HEAD, **units, **settings)}

    @classmethod
    def apply_layers(
        cls, layers: Layers, encoded: Tensors, inputs: Tensors, *, training: bool | None = None
    ) -> dict[str, Any]:
        return {"logits": layers[cls.HEAD](encoded[cls.READS], training=training)}


@keras.saving.register_keras_serializable("albert_tf")
class AlbertClassifierModel(_DenseHeadModel):
    """Encoder and the classifier of one or two texts. Output: `logits` float [B, C]."""

    HEAD = "classifier"
    POOLED_ONLY = True
    HEAD_LAYERS = ("classifier",)
    LAYER = heads.ClassifierHead


@keras.saving.register_keras_serializable("albert_tf")
class AlbertRegressionModel(_DenseHeadModel):
    """Encoder and one number for one or two texts. Output: `logits` float [B], the number, unbounded."""

    HEAD = "regression"
    POOLED_ONLY = True
    HEAD_LAYERS = ("regression",)
    LAYER = heads.RegressionHead


@keras.saving.register_keras_serializable("albert_tf")
class AlbertTokenClassifierModel(_DenseHeadModel):
    """Encoder and the classifier of each token. Output: `logits` float [B, S, C]."""

    HEAD = "token_classifier"
    HEAD_LAYERS = ("token_classifier",)
    LAYER = heads.TokenClassifierHead
    READS = "sequence_output"


@keras.saving.register_keras_serializable("albert_tf")
class AlbertMultipleChoiceModel(_DenseHeadModel):
    """Encoder and the choice between C texts (RACE).

    Inputs: the encoder's, int32 [B, C, S]; all examples of a batch have as many choices. Output: `logits` float [B, C].
    """

    HEAD = "multiple_choice"
    POOLED_ONLY = True
    HEAD_LAYERS = ("multiple_choice",)
    INPUTS = dict.fromkeys(ENCODER_INPUTS, "[B, C, S]")
    LAYER = heads.MultipleChoiceHead

    @classmethod
    def make_layers(cls, encoder: AlbertEncoder, head_config: HeadConfig, settings: Mapping[str, Any]) -> Layers:
        rows = heads.ChoicesAsRows(name="choices_as_rows")
        return {**super().make_layers(encoder, head_config, settings), "choices_as_rows": rows}

    @classmethod
    def encoder_inputs(cls, layers: Layers, inputs: Tensors) -> dict[str, Any]:
        return {key: layers["choices_as_rows"](inputs[key]) for key in ENCODER_INPUTS}

    @classmethod
    def apply_layers(
        cls, layers: Layers, encoded: Tensors, inputs: Tensors, *, training: bool | None = None
    ) -> dict[str, Any]:
        ids = inputs[features.INPUT_IDS]
        return {"logits": layers[cls.HEAD](encoded["pooled_output"], ids, training=training)}


@keras.saving.register_keras_serializable("albert_tf")
class AlbertSpanModel(_DenseHeadModel):
    """Encoder and where an answer starts and ends (SQuAD 1.1). Outputs: `start_logits`, `end_logits` float [B, S].

    Padding and question have logits too, as in the original: who reads an answer off leaves them out.
    """

    HEAD = "span"
    HEAD_LAYERS = ("span",)
    LAYER = heads.SpanHead
    READS = "sequence_output"

    @classmethod
    def apply_layers(
        cls, layers: Layers, encoded: Tensors, inputs: Tensors, *, training: bool | None = None
    ) -> dict[str, Any]:
        start_logits, end_logits = layers[cls.HEAD](encoded["sequence_output"], training=training)
        return {"start_logits": start_logits, "end_logits": end_logits}


@keras.saving.register_keras_serializable("albert_tf")
class AlbertConditionalSpanModel(AlbertHeadModel):
    """Encoder and where an answer starts, where it ends given its start, and whether there is one (SQuAD 2.0).

    Inputs besides the encoder's: `p_mask` int32 [B, S], 1 where no answer may start or end. For the loss `forward`
    takes `start_positions` int32 [B] too.

    Outputs: `start_top_log_probs` float [B, K], `start_top_index` int32 [B, K], `end_top_log_probs` float [B, K*J],
    `end_top_index` int32 [B, K*J], `cls_logits` float [B]; with `start_positions` instead `start_log_probs` and
    `end_log_probs` float [B, S], and `cls_logits`. See `ConditionalSpanHead`.
    """

    HEAD = "conditional_span"
    HEAD_LAYERS = ("conditional_span",)
    INPUTS: ClassVar[Mapping[str, str]] = {**AlbertHeadModel.INPUTS, features.P_MASK: "[B, S]"}
    LABEL_INPUTS = (features.START_POSITIONS,)

    @classmethod
    def make_layers(cls, encoder: AlbertEncoder, head_config: HeadConfig, settings: Mapping[str, Any]) -> Layers:
        head = ConditionalSpanHead(
            encoder.config.hidden_size,
            start_n_top=head_config.start_n_top,
            end_n_top=head_config.end_n_top,
            dropout_prob=head_config.dropout_prob or 0.0,
            name=cls.HEAD,
            **settings,
        )
        return {cls.HEAD: head}

    @classmethod
    def apply_layers(
        cls, layers: Layers, encoded: Tensors, inputs: Tensors, *, training: bool | None = None
    ) -> dict[str, Any]:
        starts = inputs.get(features.START_POSITIONS)
        return layers[cls.HEAD](encoded["sequence_output"], inputs[features.P_MASK], starts, training=training)


MODELS: Mapping[str, type[AlbertHeadModel]] = {
    model.HEAD: model
    for model in (
        AlbertPretrainingModel,
        AlbertMaskedLMModel,
        AlbertEncoderModel,
        AlbertClassifierModel,
        AlbertRegressionModel,
        AlbertMultipleChoiceModel,
        AlbertTokenClassifierModel,
        AlbertSpanModel,
        AlbertConditionalSpanModel,
    )
}


def make_model(
    config: AlbertConfig, head_config: HeadConfig, *, seed: int | None = None, dtype: Any = None
) -> AlbertHeadModel:
    """Model of the class that `head_config` asks for; arguments as for `AlbertHeadModel`."""
    return MODELS[head_config.head](config, head_config, seed=seed, dtype=dtype)
