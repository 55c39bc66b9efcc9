"""Reading and changing a TFLite file: what it holds, storing a tied embedding table once, and metadata.

A dynamic-range conversion quantises weights of dense layers per output channel, but a table that is looked up per
tensor. An embedding table that serves as both is therefore stored twice. `share_tied_tables` lets the dense layer use
the table of the look-up: the kernels take either kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

_IDENTIFIER = b"TFL3"
_ALIGNMENT = 16  # what the schema asks of a buffer's content, and Python's writer does not know
_OPERATORS = {code: name for name, code in vars(schema.BuiltinOperator).items() if isinstance(code, int)}


def operator_names(content: bytes) -> list[str]:
    """Names of the operations that a TFLite file needs, sorted; those that are not built in under their own name."""
    return sorted({_operator_name(code) for code in _read(content).operatorCodes})


def check_operators(content: bytes, *, known_prefix: str | None = None) -> None:
    """Refuses a file that the plain TFLite runtime could not run.

    Args:
      content: content of the file.
      known_prefix: how the names of operations begin that the runtime is given besides; None for none.

    Raises:
      ValueError: if the file needs operations that are neither built in nor given, such as Flex ones.
    """
    builtin = set(_OPERATORS.values())
    foreign = [name for name in operator_names(content) if name not in builtin]
    if known_prefix is not None:
        foreign = [name for name in foreign if not name.startswith(known_prefix)]
    if foreign:
        raise ValueError(f"the converted model needs operations that TFLite does not have: {', '.join(foreign)}")


def count_tensors(content: bytes, shape: Iterable[int]) -> int:
    """Tensors of `shape` with content of their own, such as [V, E]."""
    wanted = list(shape)
    model = _read(content)
    return len(
        {
            tensor.buffer
            for graph in model.subgraphs
            for tensor in graph.tensors
            if tensor.shape is not None and list(tensor.shape) == wanted and _size(model, tensor)
        }
    )


def share_tied_tables(content: bytes) -> bytes:
    """The file with one copy of each 8-bit table that is looked up and multiplied with too; other files as they are."""
    model = _read(content)
    changed = False
    for graph in model.subgraphs:
        while (found := _find_tied_table(model, graph)) is not None:
            operator, table = found
            own = operator.inputs[1]
            operator.inputs[1] = table
            _rescale_bias(model, graph, operator)
            _remove_tensor(model, graph, own)
            changed = True
    return _write(model) if changed else content


def restore_tables(content: bytes, tables: Sequence[np.ndarray]) -> bytes:
    """The file with every 8-bit table that is looked up holding its whole range, symmetric and with one step.

    With 8-bit activations the converter gives such a table the range of what was looked up while it watched: larger
    values of other rows are cut, without a word.

    Args:
      content: content of the file.
      tables: the tables as they were, float [N, W] each.
    """
    model = _read(content)
    changed = False
    for graph in model.subgraphs:
        for operator in graph.operators:
            looked_up, output = graph.tensors[operator.inputs[0]], graph.tensors[operator.outputs[0]]
            if _operator_of(model, operator) != "GATHER" or output.type != schema.TensorType.INT8:
                continue
            readers = {_operator_of(model, one) for one in graph.operators if operator.outputs[0] in one.inputs}
            table = next((one for one in tables if _is_cut_from(model, looked_up, one)), None)
            if table is None or readers != {"DEQUANTIZE"}:  # others count on the step that they were made for
                continue
            step = np.float32(np.abs(table).max() / 127)
            _set_content(model, looked_up, np.round(table / step).astype(np.int8))
            for tensor in (looked_up, output):
                tensor.quantization.scale = np.array([step], np.float32)
                tensor.quantization.zeroPoint = np.zeros(1, np.int64)
            changed = True
    return _write(model) if changed else content


def _is_cut_from(model: Any, tensor: Any, table: np.ndarray) -> bool:
    """Whether an 8-bit tensor of one step is `table` but for rounding, and for values beyond its range."""
    if list(tensor.shape) != list(table.shape) or not _size(model, tensor) or len(tensor.quantization.scale) != 1:
        return False
    step, zero = tensor.quantization.scale[0], tensor.quantization.zeroPoint[0]
    levels = np.clip(np.round(table / step) + zero, -128, 127)
    return bool((np.abs(levels - model.buffers[tensor.buffer].data.view(np.int8).reshape(table.shape)) <= 1).all())


def metadata(content: bytes, name: str) -> bytes | None:
    """Content of the metadata entry `name` of a TFLite file; None where it has none.

    Raises:
      ValueError: if the content is no TFLite file.
    """
    model = _read(content)
    for entry in model.metadata or []:
        if entry.name == name.encode():
            return bytes(model.buffers[entry.buffer].data)
    return None


def add_metadata(content: bytes, name: str, value: bytes) -> bytes:
    """The file with a metadata entry `name` of content `value`."""
    model = _read(content)
    buffer, entry = schema.BufferT(), schema.MetadataT()
    buffer.data = np.frombuffer(value, np.uint8)
    entry.name, entry.buffer = name, len(model.buffers)
    model.buffers.append(buffer)
    model.metadata = [*(model.metadata or []), entry]
    return _write(model)


def _find_tied_table(model: Any, graph: Any) -> tuple[Any, int] | None:
    """A dense layer whose weights are a copy of a table that is looked up, and that table's tensor."""
    looked_up = {op.inputs[0] for op in graph.operators if _operator_of(model, op) == "GATHER"}
    for operator in graph.operators:
        if _operator_of(model, operator) == "FULLY_CONNECTED" and operator.inputs[1] not in looked_up:
            for table in looked_up:
                if _hold_the_same(model, graph.tensors[operator.inputs[1]], graph.tensors[table]):
                    return operator, table
    return None


def _rescale_bias(model: Any, graph: Any, operator: Any) -> None:
    """Gives an 8-bit dense layer's bias, int32, the step that its input and its new weights make together."""
    bias = graph.tensors[operator.inputs[2]] if len(operator.inputs) > 2 and operator.inputs[2] >= 0 else None
    if bias is None or bias.type != schema.TensorType.INT32:
        return
    rows, weights = (graph.tensors[place].quantization.scale for place in operator.inputs[:2])
    step = np.float32(rows[0]) * np.float32(weights[0])
    values = model.buffers[bias.buffer].data.view(np.int32) * np.asarray(bias.quantization.scale, np.float64)
    _set_content(model, bias, np.round(values / step).astype(np.int32))
    bias.quantization.scale, bias.quantization.zeroPoint = np.array([step], np.float32), np.zeros(1, np.int64)


def _hold_the_same(model: Any, one: Any, other: Any) -> bool:
    """Whether two 8-bit tensors are the same numbers but for rounding. Equal shapes alone say nothing."""
    if list(one.shape) != list(other.shape) or not (_size(model, one) and _size(model, other)):
        return False
    if not one.type == other.type == schema.TensorType.INT8:
        return False
    (first, first_step), (second, second_step) = _dequantize(model, one), _dequantize(model, other)
    return bool((np.abs(first - second) <= 0.501 * (first_step + second_step)).all())


def _dequantize(model: Any, tensor: Any) -> tuple[np.ndarray, np.ndarray]:
    """Values of an 8-bit tensor (symmetric, per tensor or along axis 0), and the step between its levels."""
    shape = list(tensor.shape)
    steps = np.asarray(tensor.quantization.scale, np.float32).reshape([-1] + [1] * (len(shape) - 1))
    return model.buffers[tensor.buffer].data.view(np.int8).reshape(shape) * steps, steps


def _read(content: bytes) -> Any:
    if content[4:8] != _IDENTIFIER:
        raise ValueError("not a TFLite file: it lacks the mark TFL3")
    return schema.ModelT.InitFromPackedBuf(bytearray(content), 0)


def _write(model: Any) -> bytes:
    builder = _AlignedBuilder(1 << 20)
    builder.Finish(model.Pack(builder), file_identifier=_IDENTIFIER)
    return bytes(builder.Output())


class _AlignedBuilder(flatbuffers.Builder):
    """Writes byte vectors at multiples of 16 bytes, where kernels read weights from the mapped file."""

    def StartVector(self, elemSize: int, numElems: int, alignment: int) -> int:  # noqa: N802 (the library's name)
        wanted = _ALIGNMENT if elemSize == 1 and numElems >= _ALIGNMENT else alignment
        return int(super().StartVector(elemSize, numElems, wanted))


def _remove_tensor(model: Any, graph: Any, index: int) -> None:
    """Takes a tensor that nothing uses out of its graph, with its content."""
    model.buffers[graph.tensors[index].buffer].data = None
    del graph.tensors[index]

    def moved(places: Any) -> Any:
        return None if places is None else [place - (place > index) for place in places]

    for operator in graph.operators:
        operator.inputs, operator.outputs = moved(operator.inputs), moved(operator.outputs)
        operator.intermediates = moved(operator.intermediates)
    graph.inputs, graph.outputs = moved(graph.inputs), moved(graph.outputs)
    position = model.subgraphs.index(graph)
    for signature in model.signatureDefs or []:
        if signature.subgraphIndex == position:
            for tensor_map in [*signature.inputs, *signature.outputs]:
                tensor_map.tensorIndex -= tensor_map.tensorIndex > index


def _set_content(model: Any, tensor: Any, values: np.ndarray) -> None:
    """Gives a tensor other content, and leaves alone what others share with it."""
    if sum(one.buffer == tensor.buffer for graph in model.subgraphs for one in graph.tensors) > 1:
        tensor.buffer = len(model.buffers)
        model.buffers.append(schema.BufferT())
    model.buffers[tensor.buffer].data = values.reshape(-1).view(np.uint8)


def _size(model: Any, tensor: Any) -> int:
    data = model.buffers[tensor.buffer].data
    return 0 if data is None else len(data)


def _operator_of(model: Any, operator: Any) -> str:
    return _operator_name(model.operatorCodes[operator.opcodeIndex])


def _operator_name(code: Any) -> str:
    if code.customCode:
        return str(code.customCode.decode())
    return _OPERATORS[max(code.builtinCode, code.deprecatedBuiltinCode)]  # files before 2.4 fill the second alone


def constants(content: bytes) -> list[tuple[str, np.ndarray, np.ndarray | None, int]]:
    """Each constant of floating-point or quantised numbers once: its name, values, steps and bytes.

    Steps are None for floating-point numbers. Of quantised ones a value is the number of steps from 0; the steps can be
    broadcast to the values' shape.
    """
    plain = {schema.TensorType.FLOAT32: np.float32, schema.TensorType.FLOAT16: np.float16}
    quantised = {
        schema.TensorType.INT8: np.int8,
        schema.TensorType.INT16: np.int16,
        schema.TensorType.INT32: np.int32,
        schema.TensorType.INT64: np.int64,
    }
    model = _read(content)
    found: dict[int, tuple[str, np.ndarray, np.ndarray | None, int]] = {}
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            how = tensor.quantization
            is_quantised = tensor.type in quantised and how is not None and how.scale is not None and len(how.scale)
            if not _size(model, tensor) or tensor.buffer in found or not (tensor.type in plain or is_quantised):
                continue
            shape = [] if tensor.shape is None else list(tensor.shape)
            data, steps = model.buffers[tensor.buffer].data, None
            if is_quantised:
                along = [1] * len(shape)
                if len(how.scale) > 1:
                    along[how.quantizedDimension] = -1
                zero = np.asarray(0 if how.zeroPoint is None else how.zeroPoint).reshape(along)
                steps = np.asarray(how.scale, np.float32).reshape(along)
                values = data.view(quantised[tensor.type]).reshape(shape) - zero
            else:
                values = data.view(plain[tensor.type]).reshape(shape)
            found[tensor.buffer] = (tensor.name.decode(), values, steps, data.nbytes)
    return list(found.values())
