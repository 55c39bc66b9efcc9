"""Loads one exported artefact and runs it, in a process that cannot import anything of this project, nor Keras.

This file is a program, run as `python -I alone.py` in an empty folder by `export.proof.process`; it needs NumPy, and
TensorFlow for a SavedModel or ai-edge-litert for a TFLite file. So what it gives comes from the artefact alone, as in
production. Where a SavedModel has a tokenizer inside, TF-Text's operations are loaded as a server has them: the native
libraries, not the Python package, which imports Keras.

Requests come on standard input, one JSON object a line; each is answered by one on standard output, with "error" where
it failed. The first is {"artefact": PATH, "threads": NUMBER or null} and loads it; the next are
{"run": CASES.npz, "signature": NAME, "outputs": OUTPUTS.npz}, with arrays called NUMBER/NAME in both files,
{"time": CASES.npz, "signature": NAME, "repeats": NUMBER}, which gives seconds for each case, and {"memory": true}. The
end of the input ends the process.
"""

from __future__ import annotations

import ctypes
import glob
import importlib.machinery
import importlib.util
import json
import os
import sys
import time
from typing import Any

import numpy as np

OF_PROJECT = ("albert_tf", "benchmarks", "demo", "export", "pipelines")
OF_KERAS = ("keras", "keras_hub", "keras_nlp", "tf_keras")
OF_TENSORFLOW = ("tensorflow", "tensorflow_text")
_TEXT_OPERATIONS = b"TFText>"  # how the names of TF-Text's operations begin in a TFLite file


class _Refuses:
    """Loader of modules that must not be there. They are found, as TensorFlow looks for Keras' folder, but fail."""

    def create_module(self, spec: Any) -> Any:
        raise ImportError(f"{spec.name} is blocked: an artefact must do without it")

    def exec_module(self, module: Any) -> None:
        raise ImportError(f"{module.__name__} is blocked: an artefact must do without it")


class _Blocker:
    def __init__(self, packages: tuple[str, ...]) -> None:
        self._packages = packages

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] not in self._packages:
            return None
        return importlib.machinery.ModuleSpec(name, _Refuses())  # type: ignore[arg-type]


def block(packages: tuple[str, ...]) -> None:
    """Makes every import of these packages fail from now on.

    Raises:
      RuntimeError: if one of them is loaded already.
    """
    if loaded := {name.partition(".")[0] for name in sys.modules} & set(packages):
        raise RuntimeError(f"loaded before they could be blocked: {', '.join(sorted(loaded))}")
    sys.meta_path.insert(0, _Blocker(packages))


class _SavedModel:
    """A SavedModel in plain TensorFlow."""

    def __init__(self, path: str, threads: int | None) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        import tensorflow as tf

        if threads:
            tf.config.threading.set_intra_op_parallelism_threads(threads)
            tf.config.threading.set_inter_op_parallelism_threads(threads)
        self._tf = tf
        tf.zeros([1])  # the runtime's own memory belongs to the start
        self.needs = {"tensorflow": tf.__version__}
        if self._has_foreign_operations(path):
            self.needs["tensorflow_text"] = self._load_text_operations()
        self._path = path

    def load(self) -> None:
        self._model = self._tf.saved_model.load(self._path)

    def _has_foreign_operations(self, path: str) -> bool:
        from tensorflow.core.protobuf import saved_model_pb2
        from tensorflow.python.framework import op_def_registry

        with self._tf.io.gfile.GFile(os.path.join(path, "saved_model.pb"), "rb") as stream:
            graph = saved_model_pb2.SavedModel.FromString(stream.read()).meta_graphs[0].graph_def
        own = {function.signature.name for function in graph.library.function}
        nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
        return any(op_def_registry.get(name) is None for name in {node.op for node in nodes} - own)

    def _load_text_operations(self) -> str:
        from importlib.metadata import version

        for library in sorted(glob.glob(os.path.join(_folder("tensorflow_text"), "python", "ops", "*.so"))):
            self._tf.load_op_library(library)
        return version("tensorflow-text")

    def signatures(self) -> dict[str, Any]:
        return {
            name: {
                "inputs": {key: _spec(spec) for key, spec in function.structured_input_signature[1].items()},
                "outputs": {key: _spec(spec) for key, spec in function.structured_outputs.items()},
            }
            for name, function in self._model.signatures.items()
        }

    def prepared(self, signature: str, inputs: dict[str, np.ndarray]) -> dict[str, Any]:
        return {
            name: self._tf.constant(np.char.encode(value, "utf-8").astype(object) if value.dtype.kind == "U" else value)
            for name, value in inputs.items()
        }

    def run(self, signature: str, inputs: dict[str, Any]) -> dict[str, np.ndarray]:
        outputs = self._model.signatures[signature](**inputs)
        return {name: value.numpy() for name, value in outputs.items()}


def _folder(package: str) -> str:
    """Folder of an installed package, which may be blocked."""
    spec = importlib.machinery.PathFinder.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"{package} is not installed")
    return str(spec.submodule_search_locations[0])


def _spec(spec: Any) -> list[Any]:
    return [spec.dtype.name, None if spec.shape.rank is None else list(spec.shape)]


class _TFLite:
    """A TFLite file in LiteRT, without TensorFlow's package."""

    def __init__(self, path: str, threads: int | None) -> None:
        from importlib.metadata import version

        from ai_edge_litert import interpreter

        self._path, self._threads = path, threads
        self._class, self._settings = interpreter.Interpreter, {}
        self.needs = {"ai-edge-litert": version("ai-edge-litert")}
        with open(path, "rb") as stream:
            has_tokenizer = _TEXT_OPERATIONS in stream.read()
        if has_tokenizer:
            self._class = interpreter.InterpreterWithCustomOps
            self._settings = {"custom_op_registerers": self._text_operations()}
            self.needs["tensorflow-text"] = version("tensorflow-text")

    def _text_operations(self) -> list[Any]:
        """Functions that register TF-Text's operations, out of its native library, as an app links them in."""
        for library in ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2"):
            ctypes.CDLL(os.path.join(_folder("tensorflow"), library), ctypes.RTLD_GLOBAL)
        path = os.path.join(_folder("tensorflow_text"), "core", "pybinds", "tflite_registrar.so")
        loader = importlib.machinery.ExtensionFileLoader("tflite_registrar", path)
        spec = importlib.machinery.ModuleSpec("tflite_registrar", loader, origin=path)
        registrar = importlib.util.module_from_spec(spec)
        loader.exec_module(registrar)
        return [getattr(registrar, name) for name in dir(registrar) if name.startswith("Add")]

    def load(self) -> None:
        self._interpreter = self._class(model_path=self._path, num_threads=self._threads, **self._settings)
        self._interpreter.allocate_tensors()
        self._runners = {
            name: self._interpreter.get_signature_runner(name) for name in self._interpreter.get_signature_list()
        }

    def signatures(self) -> dict[str, Any]:
        def described(details: dict[str, Any]) -> dict[str, Any]:
            return {
                name: [
                    "string" if one["dtype"] is np.bytes_ else np.dtype(one["dtype"]).name,
                    [None if n < 0 else int(n) for n in one["shape_signature"]],
                ]
                for name, one in details.items()
            }

        return {
            name: {
                "inputs": described(runner.get_input_details()),
                "outputs": described(runner.get_output_details()),
            }
            for name, runner in self._runners.items()
        }

    def prepared(self, signature: str, inputs: dict[str, np.ndarray]) -> dict[str, Any]:
        return {name: value.astype(object) if value.dtype.kind == "U" else value for name, value in inputs.items()}

    def run(self, signature: str, inputs: dict[str, Any]) -> dict[str, np.ndarray]:
        return {name: np.array(value) for name, value in self._runners[signature](**inputs).items()}


def _read_cases(path: str) -> dict[str, dict[str, np.ndarray]]:
    """Case -> input -> value, in the order of the file."""
    cases: dict[str, dict[str, np.ndarray]] = {}
    with np.load(path) as arrays:
        for key in arrays.files:
            case, _, name = key.partition("/")
            cases.setdefault(case, {})[name] = arrays[key]
    return cases


def _memory(name: str) -> int | None:
    """Bytes of an entry of /proc/self/status, such as VmRSS; None on systems without it."""
    try:
        with open("/proc/self/status", encoding="ascii") as stream:
            return next(int(line.split()[1]) * 1024 for line in stream if line.startswith(f"{name}:"))
    except (OSError, StopIteration):
        return None


def _forget_peak() -> None:
    """Makes VmHWM begin anew at what is in use now: importing takes more for a moment."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as stream:
            stream.write("5")
    except OSError:
        pass  # then the peak is that of the imports, if they took more


class _Session:
    """What is loaded, and the answers to requests."""

    def __init__(self, request: dict[str, Any]) -> None:
        path = request["artefact"]
        is_file = os.path.isfile(path)
        block((*OF_PROJECT, *OF_KERAS, *(OF_TENSORFLOW if is_file else ())))
        self._artefact: Any = (_TFLite if is_file else _SavedModel)(path, request["threads"])
        _forget_peak()
        self._start = _memory("VmRSS")
        begun = time.perf_counter()
        self._artefact.load()
        self.loaded = {
            "load_seconds": time.perf_counter() - begun,
            "signatures": self._artefact.signatures(),
            "needs": {"python": sys.version.split()[0], "numpy": np.__version__, **self._artefact.needs},
        }

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        if "memory" in request:
            peak = _memory("VmHWM")
            return {"memory": None if peak is None or self._start is None else max(0, peak - self._start)}
        cases = _read_cases(request.get("run") or request["time"])
        signature = request["signature"]
        prepared = {key: self._artefact.prepared(signature, inputs) for key, inputs in cases.items()}
        if "run" in request:
            outputs = {
                f"{key}/{name}": value.astype("S") if value.dtype == object else value
                for key, inputs in prepared.items()
                for name, value in self._artefact.run(signature, inputs).items()
            }
            np.savez(request["outputs"], **outputs)
            return {}
        return {"seconds": [self._time(signature, inputs, request["repeats"]) for inputs in prepared.values()]}

    def _time(self, signature: str, inputs: dict[str, Any], repeats: int) -> list[float]:
        seconds = []
        for number in range(repeats + 1):
            begun = time.perf_counter()
            self._artefact.run(signature, inputs)
            if number:  # the first call of a shape prepares it
                seconds.append(time.perf_counter() - begun)
        return seconds


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what native libraries print is no answer
    session: _Session | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if session is None:
                session = _Session(request)
                answer = session.loaded
            else:
                answer = session.answer(request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
