"""Which way imports go: a test walks them and fails on a wrong arrow.

    config, tokenizer, features, files, folder_kinds, progress, randomness <- modeling <- training, data, tasks
    tasks know files and features, and nothing of models; training takes encoded examples (tasks.features), no files
    the same modules, weight_files <- dialects <- loading <- the doors
    training, data, tasks <- tpu <- the doors
    loading, tasks <- inference <- the doors
    albert_tf <- pipelines, export (never each other) <- demo

Sources are parsed, not imported. "At once" means what `import module` loads, on its own or through modules it imports;
imports inside functions come later.
"""

from __future__ import annotations

import ast
import functools
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT

PACKAGES = ("albert_tf", "pipelines", "export", "demo")
TENSORFLOW = {"tensorflow", "tensorflow_text", "keras", "keras_hub"}
# Modules at the bottom: they know no others of the project but each other.
BASE = {
    f"albert_tf.{name}"
    for name in (
        "config",
        "features",
        "files",
        "folder_kinds",
        "head_config",
        "initial_weights",
        "json_object",
        "marked_text",
        "normalizer",
        "progress",
        "randomness",
        "scripts",
        "tokenizer",
        "tokenizer_base",
        "tokenizer_files",
        "weight_shapes",
        "wire_format",
        "word_starts",
        "wordpiece",
        "words",
    )
}
# What doors share.
OF_DOORS = {"albert_tf.shape_flags", "albert_tf.text_flags", "albert_tf.training_door"}


@functools.cache
def modules() -> dict[str, pathlib.Path]:
    """Name -> file of each module of the project."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache
def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


def statements(node: ast.AST, *, at_once: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements below `node`; with `at_once` none inside functions or `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if at_once and isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        yield from statements(child, at_once=at_once)


@functools.cache
def imports(module: str, *, at_once: bool = False) -> frozenset[str]:
    """Modules that `module` names in import statements: ours in full, foreign ones as written."""
    found: set[str] = set()
    package = module.split(".") if modules()[module].name == "__init__.py" else module.split(".")[:-1]
    for statement in statements(tree(module), at_once=at_once):
        if isinstance(statement, ast.Import):
            found.update(alias.name for alias in statement.names)
            continue
        base = statement.module or ""
        if statement.level:
            base = ".".join([*package[: len(package) - statement.level + 1], *filter(None, [base])])
        names = {f"{base}.{alias.name}" for alias in statement.names}
        # `from package import module` names the module, `from module import thing` the module before it
        found.update(name if name in modules() else base for name in names)
    return frozenset(found)


def loaded_at_once(module: str) -> dict[str, tuple[str, ...]]:
    """Every module that importing `module` loads -> the way to it."""
    ways: dict[str, tuple[str, ...]] = {}
    open_ways: list[tuple[str, ...]] = [(module,)]
    while open_ways:
        way = open_ways.pop()
        if way[-1] in ways:
            continue
        ways[way[-1]] = way
        if way[-1] in modules():
            parents = {way[-1].rpartition(".")[0]} & modules().keys()
            open_ways += [(*way, name) for name in imports(way[-1], at_once=True) | parents]
    return ways


def top(module: str) -> str:
    return module.partition(".")[0]


def is_door(module: str) -> bool:
    """Whether `python -m module` does something."""
    return "door.run(" in modules()[module].read_text(encoding="utf-8") and module != "albert_tf.door"


def inside(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def wrong_arrow(module: str, target: str) -> str:
    """The rule that an import of `target` in `module` breaks, or ""."""
    ours = top(target) in PACKAGES
    if top(module) == "albert_tf" and ours and top(target) != "albert_tf":
        return "albert_tf imports no other package of the project"
    if top(module) == "albert_tf" and top(target) == "apache_beam":
        return "albert_tf does not know Beam"
    if top(module) == "albert_tf" and top(target) == "keras_hub" and module != "albert_tf.dialects.kerashub":
        return "keras_hub belongs to albert_tf.dialects.kerashub only"
    if {top(module), top(target)} == {"pipelines", "export"}:
        return "pipelines and export never import each other"
    if top(target) == "demo" and top(module) != "demo":
        return "nothing imports the demo"
    if module in BASE and ours and target not in BASE | {"albert_tf"}:
        return "the modules at the bottom know only each other"
    if inside(module, "albert_tf.modeling") and ours and not (target in BASE or inside(target, "albert_tf.modeling")):
        return "modeling knows only itself and the modules at the bottom"
    if inside(module, "albert_tf.weight_files") and ours:
        known = target in {"albert_tf", "albert_tf.files", "albert_tf.json_object", "albert_tf.wire_format"}
        if not known and not inside(target, "albert_tf.weight_files"):
            return "weight_files knows files of tensors, and nothing of ALBERT"
    dialects = ("albert_tf.dialects", "albert_tf.weight_files")
    if inside(module, "albert_tf.dialects") and ours and not (target in BASE or inside(target, *dialects)):
        return "dialects know tables and files, no built models"
    pieces = [f"albert_tf.training.{name}" for name in ("losses", "metrics", "schedules", "optimizers")]
    if module in pieces and inside(target, "albert_tf.modeling", "albert_tf.model_directory"):
        return "losses, metrics, schedules and optimizers know nothing of the model"
    tasks = "albert_tf.tasks"
    if inside(module, tasks) and ours and not (target in BASE or inside(target, tasks)):
        return "tasks know files and features, nothing of models and training"
    if inside(module, "albert_tf.training") and inside(target, tasks) and target != f"{tasks}.features":
        return "training knows encoded examples, nothing of files and tasks"
    if inside(module, "albert_tf.training", "albert_tf.tasks") and inside(target, "albert_tf.inference"):
        return "inference uses what training and tasks made, never the other way"
    library = top(module) == "albert_tf" and not is_door(module) and module not in OF_DOORS
    if library and target in modules() and is_door(target):
        return "doors call the library, never the other way"
    if library and target == "albert_tf.door":
        return "only doors know the command line: take albert_tf.files, albert_tf.progress, and raise ValueError"
    if library and module != "albert_tf.door" and target == "absl.flags":
        return "library code reads no flags"
    if library and target in OF_DOORS:
        return "only doors know the flags that doors share"
    if library and not inside(module, "albert_tf.tpu") and inside(target, "albert_tf.tpu"):
        return "a TPU's requirements and compiler are the doors' business; training knows the strategy alone"
    return ""


ARROWS = [(module, target) for module in modules() for target in sorted(imports(module))]


def test_arrows() -> None:
    wrong = [f"{module} -> {target}: {rule}" for module, target in ARROWS if (rule := wrong_arrow(module, target))]
    assert wrong == []


def test_the_walk_sees_known_arrows() -> None:
    # Else a fault in the walk would let everything pass.
    assert len(ARROWS) > 50
    assert ("albert_tf.modeling.encoder", "albert_tf.config") in ARROWS
    assert ("albert_tf.modeling.encoder", "albert_tf.features") in ARROWS
    assert ("albert_tf.files", "tensorflow") in ARROWS
    assert "tensorflow" not in imports("albert_tf.files", at_once=True)
    assert "tensorflow" in loaded_at_once("albert_tf.modeling.encoder")
    assert loaded_at_once("albert_tf.training.loop")["albert_tf.modeling.head_model"][0] == "albert_tf.training.loop"


@pytest.mark.parametrize(
    ("module", "target"),
    [
        ("albert_tf.config", "albert_tf.modeling.encoder"),
        ("albert_tf.modeling.encoder", "albert_tf.training.losses"),
        ("albert_tf.modeling.encoder", "albert_tf.model_directory"),
        ("albert_tf.weight_files.weight_file", "albert_tf.dialects.tables"),
        ("albert_tf.weight_files.weight_file", "albert_tf.config"),
        ("albert_tf.dialects.tables", "albert_tf.modeling.encoder"),
        ("albert_tf.training.losses", "albert_tf.modeling.encoder"),
        ("albert_tf.tasks.features", "albert_tf.modeling.encoder"),
        ("albert_tf.tasks.features", "albert_tf.training.metrics"),
        ("albert_tf.training.loop", "albert_tf.tasks.task"),
        ("albert_tf.training.loop", "pipelines.records"),
        ("albert_tf.training.loop", "apache_beam.io"),
        ("albert_tf.training.loop", "keras_hub"),
        ("albert_tf.training.loop", "albert_tf.door"),
        ("albert_tf.training.loop", "albert_tf.shape_flags"),
        ("albert_tf.training.loop", "albert_tf.training_door"),
        ("albert_tf.training.strategies", "albert_tf.tpu.requirements"),
        ("albert_tf.training.prediction", "albert_tf.inference.answers"),
        ("albert_tf.inference.answers", "albert_tf.text_flags"),
        ("albert_tf.weight_files.torch_file", "albert_tf.config"),
        ("albert_tf.weight_files.torch_file", "albert_tf.dialects.tables"),
        ("export.saved_model", "pipelines.records"),
        ("pipelines.records", "export.saved_model"),
        ("export.saved_model", "demo.corpus"),
    ],
)
def test_wrong_arrows_are_seen(module: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(modules(), module, ROOT / "albert_tf" / "config.py")
    assert wrong_arrow(module, target)


# What a Beam worker loads must not hold TensorFlow: it starts in a second then, not in thirteen.
PLAIN = ("documents", "sentences", "segments", "masking", "records", "word_marks")


@pytest.mark.parametrize("name", PLAIN)
def test_plain_functions_of_the_pipeline_load_neither_tensorflow_nor_beam(name: str) -> None:
    ways = loaded_at_once(f"pipelines.{name}")
    assert [way for target, way in ways.items() if top(target) in TENSORFLOW | {"apache_beam"}] == []


@pytest.mark.parametrize(
    "name",
    [
        "config",
        "features",
        "scripts",
        "tokenizer",
        "tokenizer_base",
        "tokenizer_files",
        "word_starts",
        "wordpiece",
        "words",
    ],
)
def test_config_tokenizer_and_features_load_no_tensorflow_and_open_no_files(name: str) -> None:
    module = f"albert_tf.{name}"
    assert [way for target, way in loaded_at_once(module).items() if top(target) in TENSORFLOW] == []
    assert {top(target) for target in imports(module)} & {*TENSORFLOW, "os", "pathlib", "io", "shutil"} == set()
    calls = [node.func for node in ast.walk(tree(module)) if isinstance(node, ast.Call)]
    assert [ast.unparse(call) for call in calls if isinstance(call, ast.Name) and call.id == "open"] == []


@pytest.mark.parametrize("module", [name for name in modules() if inside(name, "albert_tf.tasks")])
def test_tasks_load_no_heavy_library_at_once(module: str) -> None:
    heavy = TENSORFLOW | {"sklearn", "scipy", "nervaluate", "matplotlib"}
    assert [way for target, way in loaded_at_once(module).items() if top(target) in heavy] == []


@pytest.mark.parametrize("module", [name for name in modules() if inside(name, "albert_tf.analysis")])
def test_analyses_load_no_heavy_library_at_once(module: str) -> None:
    assert [way for target, way in loaded_at_once(module).items() if top(target) in TENSORFLOW | {"matplotlib"}] == []


@pytest.mark.parametrize("module", [name for name in modules() if inside(name, "albert_tf.weight_files")])
def test_readers_of_weights_load_no_heavy_library_at_once(module: str) -> None:
    heavy = TENSORFLOW | {"h5py", "safetensors", "torch"}
    assert [way for target, way in loaded_at_once(module).items() if top(target) in heavy] == []


def test_the_reader_of_pickles_can_run_nothing() -> None:
    # It takes opcodes' names from pickle, and neither loads with it nor looks a name up anywhere.
    text = modules()["albert_tf.weight_files.torch_pickle"].read_text(encoding="utf-8")
    for forbidden in ("pickle.load", "Unpickler", "getattr", "import_module", "__import__", "eval(", "exec("):
        assert forbidden not in text


@pytest.mark.parametrize("module", [name for name in modules() if is_door(name)])
def test_doors_load_no_tensorflow_at_once(module: str) -> None:
    ways = loaded_at_once(module)
    assert [way for target, way in ways.items() if top(target) in TENSORFLOW | {"apache_beam"}] == []


def test_the_package_loads_nothing_heavy() -> None:
    heavy = sorted(TENSORFLOW | {"numpy", "absl", "sentencepiece"})
    code = f"import albert_tf, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")
