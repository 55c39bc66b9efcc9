"""Warm-up requests: read back by messages of TensorFlow Serving's definitions, and answered by every signature."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from tensorflow.core.framework import tensor_pb2

from export import warm_up
from export.saved_model import SavedModelReport

_MESSAGE, _STRING, _ONE, _MANY = 11, 9, 1, 3  # of descriptor.proto: types of fields, and labels


def prediction_log_class() -> Any:
    """`tensorflow.serving.PredictionLog`, of what its .proto files say of the fields in question."""
    file = descriptor_pb2.FileDescriptorProto(
        name="prediction_log.proto",
        package="tensorflow.serving",
        syntax="proto3",
        dependency=[tensor_pb2.DESCRIPTOR.name],
    )

    def message(name: str, *fields: tuple[str, int, int, int, str]) -> descriptor_pb2.DescriptorProto:
        made = file.message_type.add(name=name)
        for field, number, label, kind, type_name in fields:
            made.field.add(name=field, number=number, label=label, type=kind, type_name=type_name or None)
        return made

    own = ".tensorflow.serving"
    message("ModelSpec", ("name", 1, _ONE, _STRING, ""), ("signature_name", 3, _ONE, _STRING, ""))
    request = message(
        "PredictRequest",
        ("model_spec", 1, _ONE, _MESSAGE, f"{own}.ModelSpec"),
        ("inputs", 2, _MANY, _MESSAGE, f"{own}.PredictRequest.InputsEntry"),
    )
    entry = request.nested_type.add(name="InputsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=_ONE, type=_STRING)
    entry.field.add(name="value", number=2, label=_ONE, type=_MESSAGE, type_name=".tensorflow.TensorProto")
    message("PredictLog", ("request", 1, _ONE, _MESSAGE, f"{own}.PredictRequest"))
    message("PredictionLog", ("predict_log", 6, _ONE, _MESSAGE, f"{own}.PredictLog"))
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensorflow.serving.PredictionLog"))


@pytest.fixture(scope="module")
def log_class() -> Any:
    return prediction_log_class()


@pytest.mark.parametrize("folder", ["text_folder", "ids_folder"])
def test_every_signature_has_a_request_that_it_answers(exported: SavedModelReport, log_class: Any, folder: str) -> None:
    path = getattr(exported, folder)
    loaded = tf.saved_model.load(path)
    records = list(tf.data.TFRecordDataset(os.path.join(path, warm_up.FILE)).as_numpy_iterator())
    asked = []
    for record in records:
        log = log_class.FromString(record)
        request = log.predict_log.request
        assert request.model_spec.name
        name = request.model_spec.signature_name
        asked.append(name)
        inputs = {key: tf.constant(tf.make_ndarray(value)) for key, value in request.inputs.items()}
        outputs = loaded.signatures[name](**inputs)
        assert all(value.shape[0] == 2 for value in outputs.values())
        if name.startswith("fill_mask"):
            assert (outputs["positions"].numpy() > 0).any(axis=1).all()  # the head is warm too
    assert sorted(asked) == sorted(loaded.signatures)
    names = {entry.name for entry in pathlib.Path(path, "assets.extra").iterdir()}
    assert names == {"signatures.json", "tf_serving_warmup_requests", "MODEL_CARD.md", "export_report.json"}


def test_tensors_come_back_as_they_were(log_class: Any) -> None:
    inputs = {
        "ids": np.arange(6, dtype=np.int32).reshape(2, 3),
        "texts": np.array([["é", ""], ["b\0", "c"]], object),
    }
    request = log_class.FromString(warm_up.prediction_log("a_signature", inputs)).predict_log.request
    assert request.model_spec.signature_name == "a_signature"
    np.testing.assert_array_equal(tf.make_ndarray(request.inputs["ids"]), inputs["ids"])
    texts = tf.make_ndarray(request.inputs["texts"])
    assert [[text.decode() for text in row] for row in texts] == inputs["texts"].tolist()
