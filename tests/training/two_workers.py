"""One of two workers: trains toy models with the other one, and prints, as JSON, how far they are from one device.

A program of its own, run by test_two_devices.py with the folder that two_devices.py has left.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import keras
import numpy as np

from albert_tf.data.manifest import read_data_directory
from albert_tf.training import cluster, strategies
from albert_tf.training.agreement import Agreement
from tests.training import equality
from tests.training.equality import COMBINATIONS, STEPS, Run


def refusal(agreement: Agreement, step: int, settings: dict[str, Any]) -> str:
    try:
        agreement.check_start(step, settings)
    except ValueError as error:
        return str(error)
    return ""


def main(directory: str, hosts: str, index: str, *names: str) -> None:
    own = cluster.of_hosts(hosts.split(","), int(index))
    strategy = strategies.make_strategy("multi_worker", cluster=own)
    data = read_data_directory(os.path.join(directory, "data"))
    result: dict[str, Any] = {"replicas": strategy.num_replicas_in_sync}
    for name in names:
        floatx, optimizer = COMBINATIONS[name]
        keras.config.set_floatx(floatx)
        run = Run(strategy, data, optimizer, os.path.join(directory, f"{name} of workers"))
        reported, examples = run.train(0, STEPS)
        with np.load(os.path.join(directory, f"{name}.npz")) as stored:
            expected = {key.replace("|", "/"): stored[key] for key in stored.files}
        result[name] = {
            "weights": equality.distance(expected, run.weights()),
            "norms": reported[:, -1].tolist(),
            "examples": examples.tolist(),
            "precision": equality.precision(run.graph()),
        }
    agreement = Agreement(strategy, own)
    result["is_chief"] = agreement.is_chief
    result["steps"] = agreement.next_steps(7 - own.number)
    result["alike"] = refusal(agreement, 40, {"seed": 3, "data": "1f"})
    result["other_step"] = refusal(agreement, 40 - 40 * own.number, {"seed": 3, "data": "1f"})
    result["other_settings"] = refusal(agreement, 40, {"seed": 3 + own.number, "learning_rate": 0.5, "data": index})
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
