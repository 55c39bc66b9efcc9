"""What a comparison of two models, or of artefacts, has found, and whether that is agreement."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from albert_tf import door

# The same weights give the same numbers; other files of them may hold narrower ones.
MAX_DIFFERENCE = 1e-5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """How far two models are apart in one output.

    Attributes:
      output: its name.
      inputs: "random" or "texts".
      largest: largest absolute difference.
      magnitude: largest absolute value that the first model gives.
    """

    output: str
    inputs: str
    largest: float
    magnitude: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Comparison:
    """What a comparison has found.

    Attributes:
      differences: by output and kind of input.
      left_out: outputs that one of the two models does not have.
      different_ids: texts whose ids differ; None where not both have a tokenizer.
      texts: how many texts were tokenised.
      heads: the two heads where they differ, so that the encoders alone were compared.
      weights: weights that were looked for among the other's tensors; None where two models were compared, whose
        outputs alone tell.
      missing_weights: those that were not found.
      is_relative: whether differences count as shares of the output's magnitude: an artefact computes in another order.
      max_difference: the bound that suits how the weights are stored.
    """

    differences: tuple[Difference, ...]
    left_out: tuple[str, ...]
    different_ids: int | None
    texts: int = 0
    heads: tuple[str, str] | None = None
    weights: int | None = None
    missing_weights: tuple[str, ...] = ()
    is_relative: bool = False
    max_difference: float = MAX_DIFFERENCE


def within(found: Comparison, max_difference: float) -> bool:
    """Whether the two agree: every output within the bound, equal ids, and no weight that is missing."""
    return (
        not found.different_ids
        and not found.missing_weights
        and all(
            one.largest <= max_difference * (one.magnitude if found.is_relative else 1.0) for one in found.differences
        )
    )


def print_comparison(found: Comparison, names: Sequence[str], max_difference: float) -> None:
    """Prints the table and the verdict."""
    rows = [(one.output, one.inputs, one.largest, one.magnitude) for one in found.differences]
    columns = ("output", "inputs", "largest difference", "largest value")
    door.print_table(f"{names[0]} beside {names[1]}", columns, rows)
    if found.heads is not None:
        print(f"the heads differ ({' and '.join(found.heads)}): the encoders alone were compared")
    if found.left_out:
        print(f"only one of the two has: {', '.join(found.left_out)}")
    if found.different_ids is None:
        print("tokenizers: not both have one, so ids were not compared")
    else:
        print(f"tokenizers: {found.different_ids} of {found.texts} texts give other ids")
    if found.weights is not None:
        missing = found.missing_weights
        print(f"weights: {found.weights - len(missing)} of {found.weights} are the same numbers in both", end="")
        print(f"; others in one: {', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''}" if missing else "")
    verdict = "the models agree" if within(found, max_difference) else "THE MODELS DIFFER"
    of = " of the largest value" if found.is_relative else ""
    print(f"{verdict} (bound {max_difference:g}{of})")
