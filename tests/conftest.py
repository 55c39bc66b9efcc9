"""Fixtures of all tests, and the account of what was skipped.

At the end of a run the skipped tests are listed by reason. In CI (`CI` or `ALBERT_TF_CI` set) a skip fails the run
unless `tests/allowed_skips.txt` names the test and says why. Where the reference data is present, a skip of a test that
uses it fails every run.
"""

from __future__ import annotations

import collections
import fnmatch
import gc
import os
import pathlib
import re
import signal
import sys
from collections.abc import Generator, Iterator

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
REFERENCE_DATA = pathlib.Path(os.environ.get("ALBERT_TF_REFERENCE_DATA", ROOT.parent / "shared"))

# A script that starts the tests in the background has Ctrl-C ignored, and so would every command that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # start-up lines of TensorFlow would hide a test's own output


def allowed_skips(text: str) -> dict[str, str]:
    """Test id -> reason, from the text of `allowed_skips.txt`: one `test id | reason` on a line, `#` starts a comment.

    Raises:
      ValueError: for a line without a reason.
    """
    allowed = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if line and not line.startswith("#"):
            test_id, _, reason = (part.strip() for part in line.partition("|"))
            if not reason:
                raise ValueError(f"tests/allowed_skips.txt:{number}: must be 'test id | reason', got {line!r}")
            allowed[test_id] = reason
    return allowed


def has_reference_data() -> bool:
    """Whether the reference implementations' values are there."""
    return (REFERENCE_DATA / "golden").is_dir()


def in_ci() -> bool:
    """Whether this run decides over a change."""
    return any(os.environ.get(name, "").lower() not in ("", "0", "false") for name in ("CI", "ALBERT_TF_CI"))


@pytest.fixture(scope="session")
def reference_data() -> pathlib.Path:
    """Folder with `golden/` and `data/`, values and texts to compare with."""
    if not has_reference_data():
        pytest.skip("no reference data (set ALBERT_TF_REFERENCE_DATA to its folder)")
    return REFERENCE_DATA


@pytest.fixture(autouse=True)
def keras_defaults() -> Iterator[None]:
    """Gives Keras its default precision back after each test."""
    yield
    keras = sys.modules.get("keras")
    if keras is not None and hasattr(keras, "config"):
        keras.config.set_floatx("float32")
        keras.config.set_dtype_policy("float32")


class SkipAccount:
    """Counts skips by reason and decides whether they are allowed."""

    def __init__(self, allowed: dict[str, str], *, in_ci: bool, has_reference_data: bool) -> None:
        self.allowed = allowed
        self.in_ci = in_ci
        self.has_reference_data = has_reference_data
        self.by_reason: dict[str, list[str]] = collections.defaultdict(list)
        self.refused: list[str] = []

    def add(self, test_id: str, reason: str, *, is_golden: bool) -> None:
        """Notes one skipped test."""
        test_id = re.sub(r"@[^\]@]*$", "", test_id)  # a group that xdist has put behind it
        self.by_reason[reason].append(test_id)
        if is_golden and self.has_reference_data:
            self.refused.append(f"{test_id}: uses the reference data, which is present")
        elif self.in_ci and test_id not in self.allowed:
            self.refused.append(f"{test_id}: not in tests/allowed_skips.txt")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.add(report.nodeid, reason.removeprefix("Skipped: "), is_golden="golden" in report.keywords)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.refused and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.by_reason:
            terminalreporter.write_line("no test was skipped")
            return
        terminalreporter.section("skipped, by reason")
        for reason, tests in sorted(self.by_reason.items(), key=lambda item: -len(item[1])):
            terminalreporter.write_line(f"{len(tests)} x {reason}")
            for test in tests:
                terminalreporter.write_line(f"    {test}")
        for line in self.refused:
            terminalreporter.write_line(f"REFUSED SKIP {line}", red=True)


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):  # a worker of xdist; the process that started it counts
        return
    path = ROOT / "tests" / "allowed_skips.txt"
    allowed = allowed_skips(path.read_text(encoding="utf-8")) if path.exists() else {}
    account = SkipAccount(allowed, in_ci=in_ci(), has_reference_data=has_reference_data())
    config.pluginmanager.register(account, "skip-account")


def is_representative(item: pytest.Item) -> bool:
    """Whether the item is not one of the further variants of a test that names its representatives."""
    marker = item.get_closest_marker("representatives")
    callspec = getattr(item, "callspec", None)
    return marker is None or callspec is None or any(fnmatch.fnmatchcase(callspec.id, one) for one in marker.args)


def pytest_collection_finish() -> None:
    # Traced graphs are large and live long: to walk all of them again and again took a twentieth of the tests' time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 50)


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "reference_data" in getattr(item, "fixturenames", ()):
            item.add_marker("golden")
        if not is_representative(item):
            item.add_marker("thorough")
    # Long ones first: one that begins last would keep a single worker busy at the end.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes and long texts are called by their argument: archives hold the time of day, and workers must agree."""
    return argname if isinstance(val, bytes) or (isinstance(val, str) and len(val) > 120) else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped:  # such a skip would not reach the account: xdist does not pass it on
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid}: skip inside a test or fixture, not while the file is read"
    return report
