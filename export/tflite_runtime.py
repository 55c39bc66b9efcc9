"""Running a TFLite (LiteRT) file from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from albert_tf import startup

if TYPE_CHECKING:
    from export.parity import Batch

SIGNATURE = "serving_default"
# How the names of TF-Text's operations begin, which cut text into ids.
TEXT_OPERATIONS = "TFText>"


def make_interpreter(content: bytes, *, num_threads: int | None = None) -> Any:
    """Interpreter of a TFLite file's content.

    It is LiteRT's, which succeeds the deprecated `tf.lite.Interpreter` and needs no TensorFlow, unless the file has its
    tokenizer inside: TF-Text's package then registers its operations. Of LiteRT's two classes it is the older: the
    newer `CompiledModel` fixes the shapes when it compiles.

    Raises:
      ValueError: if the content is no TFLite file, or a damaged one.
    """
    from ai_edge_litert.interpreter import Interpreter, InterpreterWithCustomOps

    try:
        if TEXT_OPERATIONS.encode() in content:
            import tensorflow_text

            interpreter: Any = InterpreterWithCustomOps(
                model_content=content,
                num_threads=num_threads,
                custom_op_registerers=tensorflow_text.tflite_registrar.SELECT_TFTEXT_OPS,
            )
        else:
            interpreter = Interpreter(model_content=content, num_threads=num_threads)
        with startup.held_back():  # the runtime says here which delegate it uses
            interpreter.allocate_tensors()
        signatures = interpreter.get_signature_list()
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"not a TFLite file, or a damaged one: {error}") from error
    if SIGNATURE not in signatures:
        raise ValueError(f"the TFLite file has no signature {SIGNATURE!r}; it has {', '.join(signatures) or 'none'}")
    return interpreter


def run(interpreter: Any, inputs: Batch) -> dict[str, Any]:
    """Outputs by name for inputs by name; inputs that the file does not take are left out.

    Raises:
      ValueError: for inputs that the model cannot take (an id that is not in the vocabulary, more tokens than it has
        positions), or if the file is damaged.
    """
    try:
        runner = interpreter.get_signature_runner(SIGNATURE)
        taken = {name: inputs[name] for name in runner.get_input_details() if name in inputs}
        return dict(runner(**taken))
    except RuntimeError as error:
        shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in inputs.items())
        raise ValueError(
            f"the TFLite file cannot run on {shapes}: an input is out of range, or the file is damaged: "
            f"{' '.join(str(error).split())}"
        ) from error
