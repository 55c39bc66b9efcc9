"""Signatures by the head of a model."""

from __future__ import annotations

from export.signatures.choice import ChoiceSignatures
from export.signatures.classification import ClassificationSignatures
from export.signatures.encoder import EncoderSignatures
from export.signatures.pretraining import PretrainingSignatures
from export.signatures.signature_maker import Served, SignatureMaker
from export.signatures.span import SpanSignatures
from export.signatures.tagging import TaggingSignatures

_MAKERS: dict[str, type[SignatureMaker]] = {
    "pretraining": PretrainingSignatures,
    "masked_lm": PretrainingSignatures,
    "encoder": EncoderSignatures,
    "classifier": ClassificationSignatures,
    "regression": ClassificationSignatures,
    "multiple_choice": ChoiceSignatures,
    "token_classifier": TaggingSignatures,
    "span": SpanSignatures,
    "conditional_span": SpanSignatures,
}


def make_signatures(served: Served) -> SignatureMaker:
    """The signatures of the model's head."""
    return _MAKERS[served.model.HEAD](served)
