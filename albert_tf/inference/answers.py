"""What a model says of a question: one class for each kind of head, and `make_answerer`, which takes the right one."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from albert_tf.tasks.tables import Row

if TYPE_CHECKING:
    from albert_tf.inference.loaded_model import LoadedModel
    from albert_tf.modeling.model_runner import ModelRunner

Answer = dict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnswerSettings:
    """How questions become rows of tokens, and how much is said of them.

    Attributes:
      columns: names of the columns with the first and the second text; None takes the head's own.
      max_seq_length: most tokens of a row; None takes what the model was trained on.
      stride: tokens from the start of a window to that of the next one, for texts that do not fit; None takes the
        task's, and for questions about a text 128.
      top_k: candidates for a [MASK], and answers out of a text, that are given.
    """

    columns: tuple[str | None, str | None] = (None, None)
    max_seq_length: int | None = None
    stride: int | None = None
    top_k: int = 5

    def __post_init__(self) -> None:
        if self.top_k < 1:
            raise ValueError(f"top_k must be at least 1, got {self.top_k}")


class Answerer(abc.ABC):
    """Turns rows of a table into questions, and questions into answers that are ready for JSON.

    Args:
      loaded: the model.
      runner: runs it.
      settings: see there.

    Attributes:
      columns: the columns that it reads the first and the second text from; None where it takes no second one.
      max_seq_length: most tokens of a row.
    """

    COLUMNS: ClassVar[tuple[str, str]]

    def __init__(self, loaded: LoadedModel, runner: ModelRunner, settings: AnswerSettings) -> None:
        self.loaded = loaded
        self.runner = runner
        self.settings = settings
        self.tokenizer = loaded.tokenizer
        first, second = settings.columns
        self.columns: tuple[str, str | None] = (first or self.COLUMNS[0], second or self.COLUMNS[1])
        config = loaded.task_config
        self.max_seq_length = settings.max_seq_length or (config.max_seq_length if config else loaded.max_seq_length)
        longest = loaded.model.config.max_position_embeddings
        if not 5 <= self.max_seq_length <= longest:
            raise ValueError(
                f"max_seq_length must be in [5, {longest}], the positions of {loaded.path}, got {self.max_seq_length}"
            )

    @abc.abstractmethod
    def question(self, row: Row, id: str) -> Any:
        """The question that stands in a row.

        Raises:
          ValueError: if a column is missing or holds something else; its place is named.
        """

    @abc.abstractmethod
    def answer(self, questions: Sequence[Any]) -> list[Answer]:
        """Answers in the order of the questions, each with the "id" of its question first.

        Raises:
          ValueError: for text that is not valid Unicode, or a question that cannot be answered; its place is named.
        """


def make_answerer(loaded: LoadedModel, runner: ModelRunner, settings: AnswerSettings) -> Answerer:
    """The answerer for the model's head.

    Raises:
      ValueError: if the model has no head, or a setting is out of range.
    """
    from albert_tf.inference.choice_answers import ChoiceAnswerer
    from albert_tf.inference.mask_answers import MaskAnswerer
    from albert_tf.inference.span_answers import SpanAnswerer
    from albert_tf.inference.text_answers import TextAnswerer, WordAnswerer

    kinds: dict[str, type[Answerer]] = {
        "classifier": TextAnswerer,
        "regression": TextAnswerer,
        "token_classifier": WordAnswerer,
        "multiple_choice": ChoiceAnswerer,
        "span": SpanAnswerer,
        "conditional_span": SpanAnswerer,
        "pretraining": MaskAnswerer,
        "masked_lm": MaskAnswerer,
    }
    head = loaded.model.head_config.head
    if head not in kinds:
        raise ValueError(f"{loaded.path}: has no head that could answer; albert_tf.embed gives the vectors of texts")
    return kinds[head](loaded, runner, settings)


def text_or_none(row: Row, column: str | None) -> str | None:
    """Text of a column; None where the row has none of that name.

    Raises:
      ValueError: if it holds no text.
    """
    return None if column is None or column not in row.cells else row.text(column)
