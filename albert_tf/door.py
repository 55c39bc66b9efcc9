"""What every command (`python -m albert_tf.pretrain`, ...) shares: flags, `--help`, errors of one line, exit codes.

A door is a module with a docstring that teaches, flags, and a `main` that reads the flags and makes one call:

    '''Trains a vocabulary.

    Example:
      python -m pipelines.train_tokenizer --input='corpus/*.txt' --output_dir=tokenizer
    '''
    from absl import flags
    from albert_tf import door

    with door.group("Input"):
        INPUT = flags.DEFINE_string("input", None, "Text files, a glob pattern.")

    def main() -> None:
        import tensorflow as tf       # heavy imports inside main: --help then answers at once
        ...

    if __name__ == "__main__":
        door.run(main, required=["input"])

Exit codes: 0 done, 1 failed, 2 wrong usage (unknown or missing flag, bad value, stray argument), 130 Ctrl-C.
"""

from __future__ import annotations

import contextlib
import difflib
import gc
import inspect
import logging as standard_logging
import os
import re
import shutil
import signal
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from absl import flags, logging

from albert_tf.files import check_directory, is_remote, whole_directory, whole_file, without_marks, write_whole
from albert_tf.progress import Progress, counted, print_table, progress
from albert_tf.startup import quieten_tensorflow

__all__ = [
    "Progress",
    "UsageError",
    "UserError",
    "attribute_help",
    "check_directory",
    "checking_flags",
    "counted",
    "group",
    "is_remote",
    "print_table",
    "progress",
    "run",
    "whole_directory",
    "whole_file",
    "write_whole",
]

FAILED, WRONG_USAGE = 1, 2
INTERRUPTED, TERMINATED = 130, 143

# Errors of TensorFlow that a wrong path, a damaged file or a full disk causes. The others are faults of the program.
_TENSORFLOW_ERRORS = (
    "NotFoundError",
    "PermissionDeniedError",
    "UnauthenticatedError",
    "AlreadyExistsError",
    "DataLossError",
    "ResourceExhaustedError",
    "OutOfRangeError",
    "UnavailableError",
    "FailedPreconditionError",  # also: the name of an object store's server is not found
)

_groups: dict[str, list[str]] = {}


class UserError(Exception):
    """A mistake of the caller: what is wrong, where, what was expected, what to do, in one line. Exit code 1."""


class UsageError(UserError):
    """Flags that do not go together, in one line. Exit code 2."""


@contextlib.contextmanager
def checking_flags() -> Iterator[None]:
    """Turns a ValueError of the block, which makes settings from flags, into a `UsageError`."""
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error


@contextlib.contextmanager
def group(title: str) -> Iterator[None]:
    """Shows the flags defined in the block under `title` in `--help`."""
    before = set(flags.FLAGS)
    yield
    _groups.setdefault(title, []).extend(name for name in flags.FLAGS if name not in before)


def attribute_help(cls: type) -> dict[str, str]:
    """What the "Attributes:" section of a settings class says of each field, for the help of flags of these names."""
    _, _, section = inspect.cleandoc(cls.__doc__ or "").partition("Attributes:\n")
    section = re.split(r"^\S", section, maxsplit=1, flags=re.MULTILINE)[0]  # up to the next section
    entries = re.findall(r"^  (\w+): (.+(?:\n    .+)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def run(main: Callable[[], int | None], *, required: Sequence[str] = ()) -> NoReturn:
    """Parses the command line, calls `main()` and exits the process.

    ValueError, OSError, `UserError` and TensorFlow's file errors become one line on standard error, with
    `--verbosity=1` after the traceback. Any other exception is a fault of the program and keeps its traceback.

    Args:
      main: does the work; returns None or an exit code.
      required: names of flags that must be given.
    """
    quieten_tensorflow()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a piece such as "▁the" must not stop a run under Latin-1
    try:
        code = _run(main, required)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    finally:
        gc.freeze()  # else the interpreter's last collection takes TensorFlow's graphs apart, for seconds
    sys.exit(code)


def _run(main: Callable[[], int | None], required: Sequence[str]) -> int:
    """Exit code of the whole run."""
    if any(argument in ("--help", "-help", "-h") for argument in sys.argv[1:]):
        print(_help_text(required))
        return 0
    try:
        _parse(sys.argv, required)
    except (UsageError, flags.Error) as error:
        return _report(error, WRONG_USAGE)
    logging.use_absl_handler()
    if flags.FLAGS.verbosity < 1:
        logging.get_absl_handler().setFormatter(_NewsFormatter())
    signal.signal(signal.SIGTERM, _exit_on_sigterm)
    try:
        return main() or 0
    except KeyboardInterrupt:
        print(f"{_door_name()}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except UsageError as error:
        return _report(error, WRONG_USAGE)
    except Exception as error:
        # A path such as s3://, for which TensorFlow has no file system, is a mistake of the caller as well.
        if not isinstance(error, _expected_errors()) and "File system scheme" not in str(error):
            raise
        if flags.FLAGS.verbosity >= 1:
            traceback.print_exc()
        return _report(error, FAILED)


class _NewsFormatter(standard_logging.Formatter):
    """Time of day and message; the level only where it is a warning or worse."""

    def format(self, record: standard_logging.LogRecord) -> str:
        level = f"{record.levelname.lower()}: " if record.levelno >= standard_logging.WARNING else ""
        return f"{self.formatTime(record, '%H:%M:%S')} {level}{record.getMessage()}"


def _exit_on_sigterm(signum: int, frame: Any) -> NoReturn:
    """Ends as an exception does, so that unfinished files are removed."""
    sys.exit(TERMINATED)


def _parse(argv: Sequence[str], required: Sequence[str]) -> None:
    """Parses `argv` into absl's FLAGS.

    Raises:
      UsageError: for an unknown flag, a stray argument or a missing flag.
      flags.Error: for a value that does not fit its flag.
    """
    flags.FLAGS.set_default("verbosity", logging.INFO)
    try:
        rest = flags.FLAGS(argv)
    except flags.UnrecognizedFlagError as error:
        own = [flag.name for flag in _own_flags()]
        near = difflib.get_close_matches(error.flagname.removeprefix("no"), own, n=1)
        near = near or difflib.get_close_matches(error.flagname, own, n=1)
        advice = f"did you mean --{near[0]}?" if near else "--help lists the flags"
        raise UsageError(f"unknown flag --{error.flagname}; {advice}") from error
    if len(rest) > 1:
        raise UsageError(
            f"unexpected argument {rest[1]!r}; every value belongs to a flag, as --name=value "
            "(quote patterns such as '*.txt')"
        )
    empty = [flag.name for flag in _own_flags() if flag.present and flag.value in ("", [], [""]) and flag.default != ""]
    if empty:  # mostly a shell variable that is not set
        raise UsageError(f"--{empty[0]}= has no value; give one or leave the flag out")
    missing = [name for name in required if flags.FLAGS[name].value is None]
    if missing:
        names = ", ".join(f"--{name}" for name in missing)
        raise UsageError(f"missing {names}; --help explains the flags")


def _report(error: BaseException, code: int) -> int:
    print(f"{_door_name()}: error: {_one_line(error)}", file=sys.stderr)
    return code


def _one_line(error: BaseException) -> str:
    """What `error` says, without line breaks."""
    if isinstance(error, OSError) and error.strerror:
        message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        message = str(getattr(error, "message", "") or error) or type(error).__name__
    message = re.sub(r"\{\{.*?\}\} |\[Op:\w+\].*", "", without_marks(message))  # names of TensorFlow's operations
    return " ".join(message.split())


def _expected_errors() -> tuple[type[BaseException], ...]:
    """Exception classes that a user's mistake can cause."""
    tensorflow = sys.modules.get("tensorflow")
    of_tensorflow = [getattr(tensorflow.errors, name) for name in _TENSORFLOW_ERRORS] if tensorflow else []
    return (ValueError, OSError, UserError, *of_tensorflow)


def _door_name() -> str:
    """Name of the running module, as given to `python -m`."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    name = spec.name if spec else os.path.basename(sys.argv[0])
    return str(name).removesuffix(".__main__")


def _own_flags() -> list[Any]:
    """Flags that the door itself defines, in the order of their definition, and those it takes from another module."""
    own = list(flags.FLAGS.get_key_flags_for_module(sys.argv[0]))
    names = {flag.name for flag in own}
    return own + [flags.FLAGS[name] for group_ in _groups.values() for name in group_ if name not in names]


def _help_text(required: Sequence[str]) -> str:
    """The door's docstring, its flags by group, and the flags that every door has."""
    document = (sys.modules["__main__"].__doc__ or "").strip()
    own = {flag.name: flag for flag in _own_flags()}
    grouped = {name for names in _groups.values() for name in names}
    sections = [(title, [name for name in names if name in own]) for title, names in _groups.items()]
    sections.append(("Other flags" if grouped else "Flags", [name for name in own if name not in grouped]))
    width = min(shutil.get_terminal_size((100, 24)).columns, 100)
    lines = [f"python -m {_door_name()}", "", document]
    for title, names in sections:
        if names:
            lines += ["", f"{title}:"]
        for name in names:
            lines += _flag_help(own[name], name in required, width)
    lines += [
        "",
        "Every command:",
        "  --help             this text",
        "  --flagfile=FILE    reads flags from FILE, one on a line",
        "  --verbosity=LEVEL  -1 warnings, 0 also decisions and totals (default), 1 all, and tracebacks of errors",
    ]
    return "\n".join(lines)


def _flag_help(flag: Any, is_required: bool, width: int) -> list[str]:
    """Lines of help for one flag: its form, what it means, its default."""
    choices = getattr(flag.parser, "enum_values", None)
    if flag.boolean:
        form = f"--[no]{flag.name}"
    else:
        kinds = {"string": "TEXT", "int": "NUMBER", "float": "NUMBER"}
        kind = "|".join(choices) if choices else kinds.get(flag.flag_type(), "VALUE")
        form = f"--{flag.name}={kind}"
    if is_required:
        note = "required"
    elif flag.default is None or flag.default == "":
        note = "optional"
    elif isinstance(flag.default, (list, tuple)):
        note = f"default: {','.join(map(str, flag.default)) or 'none'}"
    else:
        note = f"default: {str(flag.default).lower() if flag.boolean else flag.default}"
    text = " ".join((flag.help or "").split()).removesuffix("; repeat this option to specify a list of values")
    if choices:
        text = text.removeprefix(f"<{'|'.join(choices)}>: ")  # absl's, shown in the form already
    return [
        f"  {form}",
        *textwrap.wrap(f"{text} ({note})", width=width, initial_indent=" " * 6, subsequent_indent=" " * 6),
    ]
