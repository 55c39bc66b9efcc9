"""Small tasks and their files."""

from __future__ import annotations

import dataclasses

from albert_tf.tasks.task import Example, Task


@dataclasses.dataclass(frozen=True, kw_only=True)
class MemoryTask(Task):
    """A task whose examples are given."""

    data_dir: str | None = None
    examples: tuple[Example, ...] = ()

    def splits(self) -> tuple[str, ...]:
        return ("train",)

    def read(self, split: str) -> list[Example]:
        return list(self.examples)


CLASSIFICATION = MemoryTask(
    name="classification", head="classifier", num_texts=1, labels=("bad", "fair", "good"), metrics=("accuracy",)
)
PAIRS = dataclasses.replace(CLASSIFICATION, name="pair_classification", num_texts=2, labels=("0", "1"))
MULTI_LABEL = dataclasses.replace(CLASSIFICATION, is_multi_label=True, metrics=("micro_f1",))
REGRESSION = dataclasses.replace(
    CLASSIFICATION, name="regression", head="regression", labels=None, metrics=("pearson",)
)
TAGGING = dataclasses.replace(CLASSIFICATION, name="tagging", head="token_classifier", labels=("B-X", "I-X", "O"))


def example(*texts: str, label=None, number: int = 1) -> Example:
    return Example(id=f"a.tsv:{number}", source=f"a.tsv:{number}", texts=texts, label=label)
