"""The model card, in Markdown, of an export's report as it stands in `export_report.json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from export.proof import markdown

Content = Mapping[str, Any]

_HEADS = {
    "pretraining": "masked-word and sentence-order predictions",
    "masked_lm": "masked-word predictions",
    "encoder": "vectors of tokens and texts",
    "classifier": "a label for one or two texts",
    "regression": "a number for one or two texts",
    "multiple_choice": "the choice of one of several answers",
    "token_classifier": "a label for each token",
    "span": "answers as spans of a text",
    "conditional_span": "answers as spans of a text, or that there is none",
}
_SIZES = (
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "vocab_size",
    "parameter_sharing",
)


def render(report: Content) -> str:
    """The card."""
    return "\n".join(
        part
        for section in (_what_it_is, _where_from, _scores, _files, _parity, _costs, _limits)
        for part in section(report)
    )


def _what_it_is(report: Content) -> Iterator[str]:
    model = report["model"]
    yield markdown.heading(1, f"{model['name']}: ALBERT for {_HEADS[model['head']]}")
    rows: list[tuple[str, Any]] = [("head", model["head"]), ("parameters", model["parameters"])]
    rows += [(name, model["config"][name]) for name in _SIZES]
    rows.append(("tokenizer", model["tokenizer"]["vocabulary_file"]))
    if model["head"] == "pretraining":
        rows.append(("sentence objective", model["sentence_objective"]))
    if model["weights_sha256"]:
        rows.append(("SHA-256 of the source's weights", model["weights_sha256"]))
    yield markdown.table(("what", "value"), _as_texts(rows))
    if model["labels"]:
        yield markdown.heading(2, "Labels")
        yield markdown.table(("id", "label"), list(enumerate(model["labels"])))
    elif model["num_labels"]:
        yield markdown.paragraph(f"It has {model['num_labels']} labels, whose names are not known.")


def _as_texts(rows: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Numbers as text, so that a column of both is not set as numbers."""
    return [(name, f"{value:,}" if isinstance(value, int) else value) for name, value in rows]


def _where_from(report: Content) -> Iterator[str]:
    training, task = report["training"], report["task"]
    yield markdown.heading(2, "Where it comes from")
    if not training and not task:
        yield markdown.paragraph(
            "The source's folder does not tell what the model was trained on, nor how: its weights were converted, or "
            "its training.json is missing."
        )
        return
    if task:
        rows = [("task", task["task"]), ("max_seq_length", task["max_seq_length"]), ("stride", task["stride"])]
        rows += sorted(task["options"].items())
        yield markdown.table(("task", "value"), [(name, _short(value)) for name, value in rows if value is not None])
    facts = [(name, value) for name, value in training.items() if not isinstance(value, dict) and value is not None]
    if facts:
        yield markdown.table(("training", "value"), [(name, _short(value)) for name, value in sorted(facts)])
    settings = training.get("settings", {})
    if isinstance(settings, dict) and settings:
        shown = [(name, _short(value)) for name, value in sorted(settings.items()) if not name.startswith("config.")]
        yield markdown.table(("setting of the training", "value"), shown)


def _short(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        value = ", ".join(map(str, value))
    shown = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return shown if len(shown) <= 200 else shown[:199] + "…"


def _scores(report: Content) -> Iterator[str]:
    yield markdown.heading(2, "Scores")
    scores = report["training"].get("evaluation") or {}
    if not scores:
        yield markdown.paragraph("No evaluation is known of this model.")
        return
    yield markdown.paragraph(
        "Of the source on held-out data, as training wrote them down; the export was not evaluated again, but shown to "
        "give the source's numbers."
    )
    yield markdown.table(("score", "value"), [(name, value) for name, value in sorted(scores.items())])


def _files(report: Content) -> Iterator[str]:
    yield markdown.heading(2, "Files")
    rows = [
        (
            one["name"],
            one["bytes"] / 1e6,
            one["weights"]["bytes"] / 1e6,
            f"{one['weights']['found']} of {one['weights']['of']}",
            ", ".join(f"{name} {version}" for name, version in sorted(one["needs"].items())),
        )
        for one in report["proof"]["artefacts"]
    ]
    yield markdown.table(("artefact", "MB", "MB of weights", "weights stored", "run with"), rows)
    for one in report["proof"]["artefacts"]:
        if one["weights"]["missing"]:
            yield markdown.paragraph(f"{one['name']} leaves out: {', '.join(one['weights']['missing'])}.")


def _parity(report: Content) -> Iterator[str]:
    proof, reach = report["proof"], report["proof"]["reach"]
    yield markdown.heading(2, "Agreement with the source")
    yield markdown.paragraph(
        "Each artefact was loaded by a process of its own that could import neither albert_tf nor Keras, and compared "
        f"with the Keras model on {reach['rows']:,} rows of {reach['shortest']} to {reach['longest']} tokens: "
        f"{reach['texts']} texts in many scripts, pairs of them, and random ids. They reach {reach['longest']} of "
        f"{report['model']['config']['max_position_embeddings']} positions, {reach['segments']} of "
        f"{report['model']['config']['type_vocab_size']} segments and {reach['vocabulary']:,} of "
        f"{report['model']['config']['vocab_size']:,} pieces. The weights were compared, too, one by "
        f"one. {_bound(proof)}"
    )
    if proof["bound"]["relative"] is None:
        yield markdown.paragraph(
            "These figures are of the texts; of random ids it was checked that every output is finite."
        )
    rows = [
        (one["name"], signature, output, found["relative"], found["cosine"], found["probability"])
        for one in proof["artefacts"]
        for signature, outputs in sorted(one["agreement"].items())
        for output, found in sorted(outputs.items())
    ]
    columns = (
        "artefact",
        "signature",
        "output",
        "largest relative difference",
        "lowest cosine",
        "largest difference of a probability",
    )
    yield markdown.table(columns, rows)
    for one in proof["artefacts"]:
        if one["equal_texts"] is not None:
            yield markdown.paragraph(
                f"{one['name']}: all of {one['equal_texts']} texts have the ids of the Python tokenizer."
            )


def _bound(proof: Content) -> str:
    words = {
        "relative": "no output may differ by more than {:g} of its largest value",
        "cosine": "no output's cosine may be below {:g}",
        "probability": "no probability may differ by more than {:g}",
    }
    bounds = [words[name].format(value) for name, value in proof["bound"].items() if value is not None]
    return f"For the export to be kept, {', and '.join(bounds)}." if bounds else ""


def _costs(report: Content) -> Iterator[str]:
    yield markdown.heading(2, "Time and memory")
    yield markdown.paragraph(
        f"Medians of single calls with one row without padding, on {report['software']['system']}, "
        f"{report['software']['machine']}, while the export was made: they tell artefacts and lengths apart, not how "
        "fast your machine is: export.benchmark measures there."
    )
    found = report["proof"]["artefacts"]
    lengths = sorted({latency["length"] for one in found for latency in one["latencies"]})
    rows = []
    for one in found:
        times = {latency["length"]: latency["seconds"] * 1e3 for latency in one["latencies"]}
        memory = None if one["memory"] is None else one["memory"] / 2**20
        rows.append((one["name"], one["load_seconds"], memory, *(times.get(length) for length in lengths)))
    columns = ("artefact", "s to load", "MiB above start", *(f"ms, {length} tokens" for length in lengths))
    yield markdown.table(columns, rows)


def _limits(report: Content) -> Iterator[str]:
    model, proof = report["model"], report["proof"]
    yield markdown.heading(2, "Limits")
    longest = model["config"]["max_position_embeddings"]
    items = [
        f"It reads at most {longest:,} tokens, [CLS] and [SEP] included; it was trained on up to "
        f"{model['max_seq_length']:,}. Token ids beyond that are refused or fail; texts are cut to it.",
        f"Its vocabulary has {model['tokenizer']['vocab_size']:,} pieces: what these cannot write becomes the unknown "
        "piece.",
        "Not measured: how well it does on other data than that of its training, whether it treats groups of people "
        "alike, other processors, GPUs, and several requests at a time.",
    ]
    unseen = model["config"]["vocab_size"] - proof["reach"]["vocabulary"]
    if unseen > 0:
        items.append(
            f"{unseen:,} pieces of the vocabulary were in none of the compared rows; of them the weights alone were "
            "compared."
        )
    for one in proof["artefacts"]:
        if one["not_compared"]:
            items.append(
                f"{one['name']}: the signatures {', '.join(one['not_compared'])} have outputs of their own, which were "
                "not compared here; they call the parts that were."
            )
    yield markdown.bullets(items)
