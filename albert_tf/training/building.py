"""Model, optimizer and what else moves in a run, made from its settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from albert_tf.features import SentenceObjective
from albert_tf.modeling.encoder import Form
from albert_tf.modeling.head_model import AlbertHeadModel
from albert_tf.modeling.models import AlbertPretrainingModel
from albert_tf.training import schedules
from albert_tf.training.averages import WeightAverage
from albert_tf.training.checkpoints import Checkpoints
from albert_tf.training.loop import Objective, Trainer
from albert_tf.training.loss_scale import LossScale
from albert_tf.training.objectives import PretrainingObjective
from albert_tf.training.optimizers import AdamWeightDecay, Lamb
from albert_tf.training.settings import PretrainingSettings, RunSettings
from albert_tf.training.warm_start import WarmStart

_OPTIMIZERS = {"lamb": Lamb, "adamw": AdamWeightDecay}
_POLICIES = {"bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}


def build_pretraining_trainer(
    settings: PretrainingSettings,
    strategy: tf.distribute.Strategy,
    *,
    form: Form,
    sentence_objective: SentenceObjective = "sop",
    start: WarmStart | None = None,
) -> Trainer:
    """The trainer of a pretraining run, of a new model or of one to `start` from."""

    def make_model(policy: str) -> AlbertHeadModel:
        model = AlbertPretrainingModel(settings.config, seed=settings.seed, dtype=policy)
        if start is not None:
            start.assign(model)
        return model

    return build_trainer(settings, strategy, make_model, PretrainingObjective(sentence_objective), form=form)


def build_trainer(
    settings: RunSettings,
    strategy: tf.distribute.Strategy,
    make_model: Callable[[str], AlbertHeadModel],
    objective: Objective,
    *,
    form: Form,
) -> Trainer:
    """The trainer of a run, with all variables made in the strategy's scope. Sets Keras' floatx for float64.

    Args:
      settings: of the run.
      strategy: the devices.
      make_model: makes the model, given the name of a Keras dtype policy.
      objective: what is minimised.
      form: of the model's forward pass.
    """
    if settings.dtype == "float64":
        keras.config.set_floatx("float64")
    with strategy.scope():
        policy = _POLICIES.get(settings.dtype, settings.dtype)
        model = make_model(policy)
        weights = model.named_weights()
        schedule = schedules.WarmupPolynomialDecay(
            settings.learning_rate, settings.num_train_steps, settings.num_warmup_steps
        )
        optimizer = _OPTIMIZERS[settings.optimizer](schedule, weight_decay_rate=settings.weight_decay)
        optimizer.build(list(weights.values()))
        decay = settings.moving_average_decay
        average = WeightAverage(weights, decay) if decay else None
        scale = LossScale() if settings.dtype == "float16" else None
    return Trainer(
        model,
        optimizer,
        strategy,
        objective,
        seed=settings.seed,
        clip_norm=settings.clip_norm,
        form=form,
        micro_batches=settings.gradient_accumulation_steps,
        rematerialize=settings.remat,
        average=average,
        scale=scale,
    )


def choose_form(settings: RunSettings, strategy: tf.distribute.Strategy) -> Form:
    """Whether the model leaves the padding out, which makes shapes that no TPU takes."""
    is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    skips = settings.skip_padding == "yes" or (settings.skip_padding == "auto" and not is_tpu)
    return "packed" if skips else "unrolled"


def build_checkpoints(settings: RunSettings, trainer: Trainer) -> Checkpoints:
    """The checkpoints of a run: all that its next step depends on."""
    more: dict[str, Any] = {}
    if trainer.average is not None:
        more["average"] = trainer.average.values
    if trainer.scale is not None:
        more |= {"loss_scale": trainer.scale.scale, "good_steps": trainer.scale.good_steps}
    return Checkpoints(
        os.path.join(settings.output_dir, "checkpoints"),
        weights=trainer.model.named_weights(),
        optimizer=trainer.optimizer,
        keep=settings.keep_checkpoints,
        more=more,
    )
