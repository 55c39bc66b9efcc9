"""What the programs of two logical devices and of two workers share: toy models, 20 steps, and what they left.

`two_devices.py` writes the weights that one device reaches; `two_workers.py` compares with them.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from albert_tf.config import AlbertConfig
from albert_tf.data import batches
from albert_tf.data.manifest import DataDirectory, read_data_directory
from albert_tf.data.reading import Order
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.training import optimizers, schedules
from albert_tf.training.checkpoints import Checkpoints
from albert_tf.training.loop import Trainer
from albert_tf.training.objectives import PretrainingObjective
from tests.data import toy

CONFIG = AlbertConfig(
    vocab_size=61,
    embedding_size=6,
    hidden_size=10,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=14,
    max_position_embeddings=21,
)
STEPS, BATCH, CLIP = 20, 6, 0.3
# Float type and optimizer, by name.
COMBINATIONS = {
    f"{floatx} {optimizer.__name__}": (floatx, optimizer)
    for floatx in ("float64", "float32")
    for optimizer in (optimizers.Lamb, optimizers.AdamWeightDecay)
}


def write_data(directory: str) -> DataDirectory:
    rows = toy.random_rows(19, max_seq_length=20, vocab_size=61, seed=8)
    path = pathlib.Path(directory) / "data"
    return read_data_directory(
        toy.write_directory(path, [rows[:7], rows[7:]], max_seq_length=20, max_predictions_per_seq=3)
    )


def dataset(data: DataDirectory, *, step: int, context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
    """Batches from `step` on: what `context` gets of them, or one replica all."""
    context = context or tf.distribute.InputContext()
    return batches.training_batches(
        Order(data=data, seed=2),
        step=step,
        batch_size=BATCH,
        num_pipelines=context.num_input_pipelines,
        pipeline=context.input_pipeline_id,
        num_replicas=context.num_replicas_in_sync // context.num_input_pipelines,
    )


class Run:
    """A model under a strategy, built in Keras' present float type."""

    def __init__(
        self, strategy: tf.distribute.Strategy, data: DataDirectory, optimizer_class: Any, folder: str
    ) -> None:
        self._strategy, self._data = strategy, data
        self._at: int | None = None  # step that the iterator has come to
        with strategy.scope():
            self.model = AlbertPretrainingModel(CONFIG, seed=5, dtype=keras.config.floatx())
            optimizer = optimizer_class(schedules.WarmupPolynomialDecay(0.02, 23, 2))
            optimizer.build(list(self.model.named_weights().values()))
        objective = PretrainingObjective()
        self.trainer = Trainer(self.model, optimizer, strategy, objective, seed=1, clip_norm=CLIP, form="packed")
        self.checkpoints = Checkpoints(folder, weights=self.model.named_weights(), optimizer=optimizer, keep=1)

    def train(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Makes steps `begin` to `end`; what they reported, and the numbers of their examples (this worker's)."""
        if begin != self._at:
            pipeline = functools.partial(dataset, self._data, step=begin)
            self._iterator = iter(self._strategy.distribute_datasets_from_function(lambda of: pipeline(context=of)))
        reported, _, examples = self.trainer.run(self._iterator, end - begin)
        self._at = end
        return reported, examples

    def graph(self) -> Any:
        """Definition of the graph that made the steps, with all functions it calls."""
        (run,) = self.trainer._run.values()  # batches are of one kind
        return run.get_concrete_function(self._iterator, tf.constant(1)).graph.as_graph_def()

    def weights(self) -> dict[str, np.ndarray]:
        return {name: weight.numpy() for name, weight in self.model.named_weights().items()}


def distance(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    """Largest difference of two models' weights."""
    assert one.keys() == other.keys()
    return float(max(np.abs(one[name] - other[name]).max() for name in one))


def output_types(graph: Any) -> Iterator[tuple[str, tf.DType]]:
    """Operation and type of every output in a graph and all functions it calls."""
    signatures = {function.signature.name: function.signature for function in graph.library.function}
    for node in [*graph.node, *(node for function in graph.library.function for node in function.node_def)]:
        for output in (signatures.get(node.op) or op_def_registry.get(node.op)).output_arg:
            types = [output.type] if output.type else [node.attr[output.type_attr].type]
            if output.type_list_attr:
                types = node.attr[output.type_list_attr].list.type
            yield from ((f"{node.op} {node.name}", tf.as_dtype(value)) for value in types)


def precision(graph: Any) -> dict[str, Any]:
    """How many outputs of a graph are float64, how many are of less than that, and the first few of those."""
    low = (tf.float32, tf.float16, tf.bfloat16)
    found = [(operation, dtype.base_dtype) for operation, dtype in output_types(graph)]
    lower = [f"{operation}: {dtype.name}" for operation, dtype in found if dtype in low]
    return {"float64": sum(dtype == tf.float64 for _, dtype in found), "lower": len(lower), "first": lower[:9]}
