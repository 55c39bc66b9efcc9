"""Odd requests to every signature: each has a defined answer or an error that names what is wrong, never NaN."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.head_config import HEADS, LABELLED, HeadConfig
from export import parity
from export.saved_model_files import ServedSettings, served_from
from export.signatures.making import make_signatures
from export.signatures.signature_maker import SignatureMaker
from tests.inference.conftest import MAX_SEQ_LENGTH, loaded_model

POSITIONS = 70
ODD = (
    b"",
    b" ",
    "\t\u3000 \u00a0\n".encode(),
    b"\xff\xfe bad \xc3",
    b"\xed\xa0\x80 a lone surrogate",
    b"\x00",
    b"a\x00b",
    "\U0010ffff \ufeff\u200b".encode(),
    b"word " * 4_000,
    b"x" * 20_000,
)
MEGABYTE = b"In 2010, a word of many. " * 40_000


@pytest.fixture(scope="module", params=HEADS)
def maker(request) -> SignatureMaker:
    settings: dict[str, Any] = {"num_labels": 3} if request.param in LABELLED else {}
    head = HeadConfig(head=request.param, start_n_top=4, end_n_top=2, **settings)
    return make_signatures(served_from(loaded_model(head), ServedSettings(top_k=3)))


@pytest.fixture(scope="module")
def of_text(maker: SignatureMaker) -> dict[str, Any]:
    return {name: one.function.get_concrete_function() for name, one in maker.text_signatures().items()}


@pytest.fixture(scope="module")
def of_ids(maker: SignatureMaker) -> dict[str, Any]:
    return {name: one.function.get_concrete_function() for name, one in maker.ids_signatures().items()}


def specs(function: Any) -> dict[str, tf.TensorSpec]:
    return {spec.name: spec for spec in function.structured_input_signature[0]}


def request(function: Any, texts: list[bytes]) -> dict[str, tf.Tensor]:
    """A text in each place, string [B] or [B, 2]; of a question its start, which leaves room for the text."""
    places: dict[int | None, Any] = {1: texts, 2: [[text, text] for text in texts]}
    given = {name: places[spec.shape.rank] for name, spec in specs(function).items()}
    if "question" in given:
        given["question"] = [text[:10] for text in texts]
    return {name: tf.constant(value, tf.string) for name, value in given.items()}


def check(outputs: dict[str, tf.Tensor], rows: int) -> None:
    for name, value in outputs.items():
        assert value.shape[0] == rows, name
        if value.dtype.is_floating:
            assert np.isfinite(value).all(), name
            if "prob" in name and "log" not in name:
                assert ((value.numpy() >= 0) & (value.numpy() <= 1 + 1e-6)).all(), name


def text_functions(of_text: dict[str, Any]) -> dict[str, Any]:
    return {name: function for name, function in of_text.items() if name != "ids"}


def test_odd_texts_together_and_alone(of_text: dict[str, Any]) -> None:
    for function in text_functions(of_text).values():
        check(function(**request(function, list(ODD))), len(ODD))
    default = of_text["serving_default"]
    for text in ODD[:7]:
        check(default(**request(default, [text])), 1)


@pytest.mark.slow
def test_a_megabyte(of_text: dict[str, Any]) -> None:
    default = of_text["serving_default"]
    check(default(**request(default, [MEGABYTE])), 1)


def test_no_rows(of_text: dict[str, Any], of_ids: dict[str, Any]) -> None:
    for function in text_functions(of_text).values():
        given = {
            name: tf.zeros([0, 2] if spec.shape.rank == 2 else [0], tf.string) for name, spec in specs(function).items()
        }
        check(function(**given), 0)
    for function in (*of_ids.values(), of_text["ids"]):
        given = {name: tf.zeros([0] + [5] * (spec.shape.rank - 1), tf.int32) for name, spec in specs(function).items()}
        check(function(**given), 0)


def ids_request(maker: SignatureMaker, function: Any, **changes: Any) -> dict[str, tf.Tensor]:
    """Two rows of five positions, changed where said."""
    batch = parity.make_batch([([1, 2, 3, 4, 5], [1] * 5, [0, 0, 0, 1, 1])] * 2, predictions=2)
    inputs = {**parity.head_inputs(maker.model.head_config, batch), **changes}
    return {name: tf.constant(inputs[name]) for name in specs(function)}


def test_ids_out_of_range_are_named(maker: SignatureMaker, of_ids: dict[str, Any]) -> None:
    config = maker.model.config
    limits = {
        "input_ids": config.vocab_size,
        "input_mask": 2,
        "segment_ids": config.type_vocab_size,
        "p_mask": 2,
        "masked_lm_positions": 5,
    }
    for function in of_ids.values():
        good = ids_request(maker, function)
        check(function(**good), 2)
        for name, value in good.items():
            for wrong in (-1, limits[name]):
                changed = value.numpy()
                changed.reshape(-1)[-1] = wrong
                with pytest.raises(tf.errors.InvalidArgumentError, match=f"{name} must be at least 0 and less than"):
                    function(**{**good, name: tf.constant(changed)})


def test_lengths_and_shapes_that_do_not_fit_are_named(maker: SignatureMaker, of_ids: dict[str, Any]) -> None:
    function = of_ids["serving_default"]
    good = ids_request(maker, function)

    def resized(length: int) -> dict[str, tf.Tensor]:
        return {
            name: value if name == "masked_lm_positions" else tf.zeros([*value.shape[:-1], length], tf.int32)
            for name, value in good.items()
        }

    check(function(**resized(POSITIONS)), 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"at most {POSITIONS} positions"):
        function(**resized(POSITIONS + 1))
    least = "4 positions" if maker.model.HEAD == "conditional_span" else "one position"
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"at least {least}"):
        function(**resized(0))
    for name in ("input_mask", "segment_ids"):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"{name} must be shaped as input_ids"):
            function(**{**good, name: good[name][..., :3]})
    with pytest.raises((TypeError, ValueError, tf.errors.InvalidArgumentError)):
        function(**{name: tf.cast(value, tf.float32) for name, value in good.items()})
    # Rows of padding alone: zeros, not NaN.
    check(function(**{name: tf.zeros_like(value) for name, value in good.items()}), 2)


def test_texts_that_are_not_as_many_are_named(of_text: dict[str, Any]) -> None:
    for function in text_functions(of_text).values():
        first, *others = specs(function)
        for name in others:
            given = request(function, [b"one", b"other"])
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"{name} must be .*as {first}"):
                function(**{**given, name: given[name][:1]})


def test_one_choice_is_no_choice(maker: SignatureMaker, of_text: dict[str, Any]) -> None:
    if maker.model.HEAD != "multiple_choice":
        assert "choices" not in specs(of_text["serving_default"])
        return
    given = request(of_text["serving_default"], [b"one"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="choices must be at least 2"):
        of_text["serving_default"](**{**given, "choices": given["choices"][:, :1]})


def test_computed_padding_gives_the_same(maker: SignatureMaker, of_ids: dict[str, Any]) -> None:
    served = dataclasses.replace(maker.served, padding="computed", text=None, tokenizer=None)
    assert served.form == "loop"
    rows = [
        ([1, 2, 3, 4, 5, 0, 0], [1] * 5 + [0] * 2, [0] * 7),
        ([7, 8, 9, 1, 2, 3, 4], [1] * 7, [0, 0, 0, 1, 1, 1, 1]),
    ]
    batch = parity.make_batch(rows, predictions=2)
    inputs = parity.head_inputs(maker.model.head_config, batch)
    expected = [parity.source_outputs(maker.model, inputs)]
    for name, one in make_signatures(served).ids_signatures().items():
        for function in (one.function.get_concrete_function(), of_ids[name]):
            outputs = function(**{name: tf.constant(inputs[name]) for name in specs(function)})
            found = parity.agreement(expected, [outputs], [batch], head=maker.model.HEAD)
            parity.check(found, parity.Bound(relative=1e-5), artefact=name)


def test_every_document_says_what_is_cut(maker: SignatureMaker) -> None:
    for name, one in {**maker.text_signatures(), **maker.ids_signatures()}.items():
        assert one.document, name
        assert any(word in one.document.lower() for word in ("cut", "windows", "inputs as in serving_default")), name
    assert maker.text.max_seq_length == MAX_SEQ_LENGTH
