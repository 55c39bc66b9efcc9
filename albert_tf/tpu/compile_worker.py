"""Compiles StableHLO for a TPU that is not there, and writes down what the compiler says of the program.

Runs by its path on the Python of `.venv-tpu-check`, which has jax and a newer libtpu than TensorFlow bears, and nothing
of this project:

    python compile_worker.py step.mlir result.json v5e:1x1 default
"""

from __future__ import annotations

import importlib.metadata
import json
import pathlib
import sys
import time
from typing import Any


def erase_copies(operation: Any) -> None:
    """Takes every `mhlo.copy` out of `operation`: TensorFlow writes them, and the compiler does not know them."""
    for region in operation.regions:
        for block in region:
            for inner in list(block):
                erase_copies(inner.operation)
                if inner.operation.name == "mhlo.copy":
                    inner.operation.results[0].replace_all_uses_with(inner.operation.operands[0])
                    inner.operation.erase()


def compile_text(text: str, topology: str, configuration: str) -> dict[str, Any]:
    """Figures of the program compiled from `text` for one device of `topology`: bytes, and operations of a run."""
    import numpy as np
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax.experimental import topologies
    from jaxlib.mlir import ir

    described = topologies.get_topology_desc(platform="tpu", topology_name=topology, chip_config_name=configuration)
    device = described.devices[0]
    options = xla_client.CompileOptions()
    options.num_replicas = options.num_partitions = 1
    options.device_assignment = xla_client.DeviceAssignment.create(np.array([[device.id]]))
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        erase_copies(module.operation)
        program = device.client.compile(module, xla_client.DeviceList((device,)), options)
    memory, cost = program.get_compiled_memory_stats(), program.cost_analysis()
    cost = cost[0] if isinstance(cost, list) else cost
    return {
        "arguments": memory.argument_size_in_bytes,
        "outputs": memory.output_size_in_bytes,
        "aliased": memory.alias_size_in_bytes,
        "temporary": memory.temp_size_in_bytes,
        "code": memory.generated_code_size_in_bytes,
        "flops": cost["flops"],
    }


def main(source: str, target: str, topology: str, configuration: str) -> None:
    from jax.errors import JaxRuntimeError

    begun = time.monotonic()
    result: dict[str, Any] = {name: importlib.metadata.version(name) for name in ("jax", "libtpu")}
    try:
        result |= compile_text(pathlib.Path(source).read_text(encoding="utf-8"), topology, configuration)
    except JaxRuntimeError as error:
        result["error"] = str(error)
    result["seconds"] = round(time.monotonic() - begun, 1)
    pathlib.Path(target).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
