"""The paper's comparison: against the built Keras models of every size and way of sharing, and the paper's figures."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import keras
import pytest

from albert_tf.analysis import figures
from albert_tf.analysis.compared import BERT, Compared, papers_models
from albert_tf.analysis.figures import compute_figures, explain_paper, parameters_by_part
from albert_tf.config import AlbertConfig
from albert_tf.head_config import HeadConfig
from albert_tf.modeling.arithmetic import step_operations
from albert_tf.modeling.head_model import AlbertHeadModel
from albert_tf.modeling.models import make_model
from albert_tf.modeling.parameter_counts import count_parameters
from albert_tf.training.optimizers import Lamb
from tests.modeling.small_models import HEAD_CASES, SHARING_CASES, make_config

MODELS = {model.name: model for model in papers_models()}


def built_by_part(config: AlbertConfig, head: HeadConfig) -> dict[str, int]:
    """Parameters of the Keras model by part, from its layers; no weight is allocated, so that any size can be built."""
    try:
        with keras.StatelessScope(initialize_variables=False):
            return sizes_by_part(make_model(config, head))
    finally:
        keras.utils.clear_session()  # else Keras allocates these weights when it builds the next model


def sizes_by_part(model: AlbertHeadModel) -> dict[str, int]:
    encoder = model.encoder
    blocks = [block for layer in encoder.layer_blocks for block in layer]

    def size(layers: Iterable[Any]) -> int:
        weights = {id(weight): math.prod(weight.shape) for layer in layers if layer for weight in layer.weights}
        return sum(weights.values())

    words = [weight for weight in encoder.embeddings.weights if weight.name == "word_projection"]
    word_projection = sum(math.prod(weight.shape) for weight in words)
    return {
        "embeddings": size([encoder.embeddings]) - word_projection,
        "projection": size([encoder.embedding_projection]) + word_projection,
        "attention": size(block.attention for block in blocks),
        "feed-forward": size(block.feed_forward for block in blocks),
        "pooler": size([encoder.pooler]),
        "heads": size([model]) - size([encoder]),
    }


@pytest.mark.parametrize("name", MODELS)
def test_the_papers_models_equal_the_built_ones(name: str) -> None:
    model = MODELS[name]
    found = parameters_by_part(model.config, model.head)
    assert found == built_by_part(model.config, model.head)
    closed = count_parameters(model.config)
    assert found["heads"] == closed["masked_lm"] + closed["sentence_order"]
    assert sum(found.values()) == sum(closed.values())


@pytest.mark.parametrize("case", SHARING_CASES)
def test_every_way_of_sharing_equals_the_built_model(case: str) -> None:
    config = make_config(**SHARING_CASES[case])
    assert parameters_by_part(config, HeadConfig()) == built_by_part(config, HeadConfig())


@pytest.mark.parametrize("case", HEAD_CASES)
def test_every_head_equals_the_built_model(case: str) -> None:
    assert parameters_by_part(make_config(), HEAD_CASES[case]) == built_by_part(make_config(), HEAD_CASES[case])


def test_encoders_are_as_large_as_the_published_ones() -> None:
    # KerasHub's counts of the published weights, which have no heads.
    published = {"base": 11_683_584, "large": 17_683_968, "xlarge": 58_724_864, "xxlarge": 222_595_584}
    assert {size: compute_figures(MODELS[f"ALBERT {size}"]).encoder for size in published} == published


def test_the_papers_figures() -> None:
    """Tables 1, 3 and 4: which parts give them, rounded; the two that no parts give are said to be larger."""
    printed = {name: model.paper_millions for name, model in MODELS.items() if model.paper_millions is not None}
    assert len(printed) == 18
    larger = {"ALBERT xlarge", "ALBERT xxlarge"}
    for name, millions in printed.items():
        found = compute_figures(MODELS[name])
        shares = MODELS[name].config.parameter_sharing != "none"
        counted = found.encoder if shares else found.encoder - found.parameters["pooler"]
        explained = explain_paper(found, millions)
        if name in larger:
            assert found.total < millions * 1e6
            assert explained.endswith(f"more than all parts together: {found.total:,}")
        else:
            assert round(counted / 1e6) == millions, name
            assert explained == f"encoder{'' if shares else ' without its pooler'}: {counted:,}"


def test_the_vocabulary_of_bert() -> None:
    """With that of the published models no count gives the paper's 108 million."""
    config = AlbertConfig.from_dict({**BERT["base"], "vocab_size": 30522})
    found = compute_figures(Compared(name="BERT base", group="own", config=config))
    assert explain_paper(found, 108).startswith("none of the counts gives it")
    assert round((found.encoder - found.parameters["pooler"]) / 1e6) == 109


@pytest.mark.parametrize("case", ["all", "none", "no_projection", "words_alone", "inner_blocks"])
def test_activations_against_a_count_by_hand(case: str) -> None:
    config = make_config(**SHARING_CASES[case])  # V 97, H 24, L 4, N 3, I 40; E 8, or 24 without a projection
    length, predictions = 13, 5
    by_token = {
        "query, key, value": 3 * 24,
        "context": 24,
        "sum and LayerNorm behind attention": 2 * 24,
        "inner layer before and after GELU": 2 * 40,
        "sum and LayerNorm behind the feed-forward": 2 * 24,
    }
    layer = length * sum(by_token.values()) + 3 * length * length
    # what becomes of a word: the sum of the embeddings and its LayerNorm, then the projection
    width = {"no_projection": 24, "words_alone": 24}.get(case, 8)
    before = {"no_projection": 2 * 24, "words_alone": 8 + 2 * 24}.get(case, 2 * 8 + 24)
    head = predictions * (24 + 3 * width + 2 * 97) + 2 * 24
    layers = 8 if case == "inner_blocks" else 4
    expected = 4 * (layers * layer + length * before + head)
    assert figures.activation_bytes(config, max_seq_length=13, max_predictions_per_seq=5) == expected


def test_memory_and_operations() -> None:
    config = make_config(num_hidden_groups=2)
    found = compute_figures(
        Compared(name="small", group="own", config=config), max_seq_length=13, max_predictions_per_seq=4
    )
    weights = list(make_model(config, HeadConfig()).named_weights().values())
    optimizer = Lamb(0.1)
    optimizer.build(weights)
    assert found.weight_bytes == found.reduced_bytes == sum(weight.numpy().nbytes for weight in weights)
    assert found.optimizer_bytes == sum(slot.numpy().nbytes for slot in (*optimizer.m, *optimizer.v))
    operations = step_operations(config, batch_size=1, max_seq_length=13, max_predictions_per_seq=4)
    assert found.training_operations_per_token * 13 == pytest.approx(operations)
    assert found.forward_operations_per_token * 3 == pytest.approx(found.training_operations_per_token)


def test_an_example_is_as_long_as_the_model_allows() -> None:
    model = Compared(name="small", group="own", config=make_config())
    assert compute_figures(model).max_seq_length == 17
    assert compute_figures(model) == compute_figures(model, max_seq_length=17, max_predictions_per_seq=3)
    assert compute_figures(MODELS["ALBERT base"]).max_seq_length == 512


def test_examples_that_cannot_be() -> None:
    model = Compared(name="small", group="own", config=make_config())
    with pytest.raises(ValueError, match="small: max_seq_length must be at most max_position_embeddings, 17, got 18"):
        compute_figures(model, max_seq_length=18)
    with pytest.raises(ValueError, match="max_predictions_per_seq must be at most the 5 tokens of an example, got 6"):
        compute_figures(model, max_seq_length=5, max_predictions_per_seq=6)
