"""What the last evaluation of a pretraining run says, as rows of a table and in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

# A difference counts from this many nats and standard errors on.
ENOUGH_NATS = 0.1
ENOUGH_ERRORS = 5.0

# The rate has ended at 0, so that a finished run cannot go on.
_LONGER = "Train longer: more num_train_steps, in another output_dir."


def rows(figures: Mapping[str, float]) -> list[tuple[str, str, str]]:
    """Table of the masked-LM figures of `Evaluator`: what, at [MASK], at all predictions."""

    def row(title: str, name: str, form: str) -> tuple[str, str, str]:
        return title, form.format(figures[f"{name}_at_mask"]), form.format(figures[name])

    def difference(title: str, name: str) -> tuple[str, str, str]:
        values = [f"{figures[name + e]:.3f} +- {figures[name + e + '_error']:.3f}" for e in ("_at_mask", "")]
        return title, values[0], values[1]

    return [
        row("predictions", "positions", "{:,}"),
        row("masked-LM loss", "masked_lm_loss", "{:.3f}"),
        row("  context-free bound: frequencies of the training labels", "context_free_loss", "{:.3f}"),
        difference("  below that bound, +- standard error", "gain_over_context_free"),
        row("  the model itself with contexts permuted", "permuted_loss", "{:.3f}"),
        difference("  below that where both rows have a prediction, +- error", "gain_over_permuted"),
        row("masked-LM accuracy", "masked_lm_accuracy", "{:.1%}"),
        row("  always the commonest training label", "context_free_accuracy", "{:.1%}"),
    ]


def line(figures: Mapping[str, float]) -> str:
    """The most important figures of an evaluation, for one line of the log."""
    pairs = [
        f"{name.replace('_', ' ')} {value:.1%}"
        for name, value in figures.items()
        if name in ("sentence_order_accuracy", "next_sentence_accuracy")
    ]
    words = [
        f"masked-LM loss {figures['masked_lm_loss']:.3f} (at [MASK] {figures['masked_lm_loss_at_mask']:.3f}, "
        f"context-free {figures['context_free_loss_at_mask']:.3f})",
        f"accuracy {figures['masked_lm_accuracy']:.1%} (at [MASK] {figures['masked_lm_accuracy_at_mask']:.1%})",
    ]
    return ", ".join([*words, *pairs])


def verdict(figures: Mapping[str, float]) -> str:
    """What the model has learned, in a sentence or two: of words in context, and of pairs of segments."""
    below, permuted = figures["gain_over_context_free_at_mask"], figures["gain_over_permuted_at_mask"]
    if not figures["positions_at_mask"]:
        words = "No held-out position shows [MASK], so nothing can be said of the masked LM."
    elif _is_sure(figures, "gain_over_context_free_at_mask") and _is_sure(figures, "gain_over_permuted_at_mask"):
        words = (
            f"The model uses context: at [MASK] it is {below:.2f} nats below the context-free bound and {permuted:.2f} "
            "below its own loss with contexts permuted."
        )
    elif below < -ENOUGH_NATS:
        words = (
            f"The model does not know yet how frequent pieces are: at [MASK] it is {-below:.2f} nats above the "
            f"context-free bound. {_LONGER} If that does not help, the learning rate does not fit."
        )
    elif permuted > ENOUGH_ERRORS * figures["gain_over_permuted_at_mask_error"]:
        words = (
            f"The model begins to use context (permuted contexts cost it {permuted:.2f} nats at [MASK]), but is not "
            f"clearly below the context-free bound yet ({ENOUGH_NATS:g} nats are asked for). {_LONGER}"
        )
    else:
        words = (
            "The model does not use context yet: it knows how frequent pieces are, where every BERT-like model starts. "
            f"{_LONGER} If the curve stays flat, try another learning rate or a larger batch."
        )
    return " ".join([words, *_pairs(figures)])


def _pairs(figures: Mapping[str, float]) -> Iterator[str]:
    """A sentence about each sentence objective that the figures hold."""
    for name, what in (("sentence_order", "the order of segments"), ("next_sentence", "segments of other documents")):
        if f"{name}_accuracy" in figures:
            accuracy, majority = figures[f"{name}_accuracy"], figures[f"{name}_majority"]
            error = (0.25 / max(figures["examples"], 1)) ** 0.5  # of a share near one half
            knows = accuracy - majority > ENOUGH_ERRORS * error
            says = "It recognises" if knows else "It does not clearly recognise"
            yield f"{says} {what}: {accuracy:.1%} right, {majority:.1%} by always the same answer."


def _is_sure(figures: Mapping[str, float], name: str) -> bool:
    return figures[name] >= max(ENOUGH_NATS, ENOUGH_ERRORS * figures[f"{name}_error"])
