"""A TFLite file with the tokenizer inside: ids of the Python tokenizer, and the model's outputs for texts."""

from __future__ import annotations

import itertools
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.head_config import HeadConfig
from albert_tf.model_directory import save_model_directory
from albert_tf.modeling.models import make_model
from albert_tf.tasks.task_config import TASK_CONFIG_NAME, TaskConfig
from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig
from albert_tf.tokenizer_base import Tokenizer
from albert_tf.wordpiece import WordPieceTokenizer
from export import flatbuffer, parity, tflite
from export.tflite_runtime import TEXT_OPERATIONS
from export.tflite_tokenizer import TFLiteTextGraph, make_text_graph
from tests.export.conftest import tiny_config
from tests.export.test_tflite_heads import head_model
from tests.export.texts import ODD_TEXTS, built_in_english

MANY_SCRIPTS = (
    "Η Αθήνα και ο Σωκράτης",
    "Москва — столица; ёлка, Ёж",
    "ქართული Հայերեն עברית",
    "ไทย ລາວ မြန်မာ ភាសាខ្មែរ",
    "தமிழ் తెలుగు ಕನ್ನಡ മലയാളം",
    "한국어 조선말 ㈜ ㎏",
    "Việt Nam, Ång\u0301strom, naïve façade, ǅungla",
    "ＦＵＬＬ ｗｉｄｔｈ １２３，４５",
    "😀🏳️\u200d🌈 \U0001d400\U0001d7d8",
)


class TokensInFile:
    """The tokenizer alone as a TFLite file, run on lists of texts."""

    def __init__(self, tokenizer: AlbertTokenizer) -> None:
        graph = TFLiteTextGraph(tokenizer, 64)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")], autograph=False)
        def function(text: tf.Tensor) -> dict[str, tf.Tensor]:
            tokens = graph.tokenize(text)
            return {"ids": tokens.flat_values, "splits": tokens.row_splits}

        converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()], graph)
        converter.allow_custom_ops = True
        self.content = bytes(converter.convert())
        self._runner = tflite.make_interpreter(self.content).get_signature_runner(tflite.SIGNATURE)

    def __call__(self, texts: list) -> list[list[int]]:
        outputs = self._runner(text=np.array(texts, object))
        return [outputs["ids"][start:end].tolist() for start, end in itertools.pairwise(outputs["splits"])]


def assert_equal_ids(tokens: TokensInFile, tokenizer: Tokenizer, texts: list[str]) -> None:
    expected, found = tokenizer.encode_batch(texts), tokens(texts)
    assert [(t, e, f) for t, e, f in zip(texts, expected, found, strict=True) if e != f] == []


@pytest.fixture(scope="module")
def tokens(tokenizer: AlbertTokenizer) -> TokensInFile:
    return TokensInFile(tokenizer)


def test_ids_are_those_of_the_tokenizer(tokens: TokensInFile, tokenizer: AlbertTokenizer) -> None:
    assert tokenizer.digit_comma_table()
    assert_equal_ids(tokens, tokenizer, [*ODD_TEXTS, *MANY_SCRIPTS, *built_in_english()[:300]])
    assert tokens([text.encode() for text in ODD_TEXTS]) == tokenizer.encode_batch(ODD_TEXTS)
    assert tokens([b"caf\xc3 \xff"]) == [tokenizer.encode("caf\u2603 \u2603")]  # a character that it does not know


def test_other_preparation_of_text(tokenizer: AlbertTokenizer) -> None:
    config = TokenizerConfig(lower_case=False, strip_accents=False, split_digit_comma=False)
    other = AlbertTokenizer(tokenizer.model_proto, config=config)
    assert_equal_ids(TokensInFile(other), other, [*ODD_TEXTS, *MANY_SCRIPTS])


def test_one_operation_is_not_built_in(tokens: TokensInFile) -> None:
    flatbuffer.check_operators(tokens.content, known_prefix=TEXT_OPERATIONS)
    with pytest.raises(ValueError, match=r"TFLite does not have: TFText>FastSentencepieceTokenize$"):
        flatbuffer.check_operators(tokens.content)


CHARACTERS = [chr(code) for code in itertools.chain(range(0xD800), range(0xE000, 0x20000), range(0x2F800, 0x2FA20))]


@pytest.mark.slow
def test_every_character_and_golden_texts(reference_data: pathlib.Path) -> None:
    published = AlbertTokenizer((reference_data / "data" / "albert_en_30k.model").read_bytes())
    tokens = TokensInFile(published)
    assert_equal_ids(tokens, published, [f"a{character}B" for character in CHARACTERS])
    golden = json.loads((reference_data / "golden" / "features" / "tokenization_en.json").read_text(encoding="utf-8"))
    assert tokens([entry["text"] for entry in golden]) == [entry["ids"] for entry in golden]


def test_texts_are_cut_and_batched_as_in_python(tokenizer: AlbertTokenizer) -> None:
    model = head_model(tokenizer, "encoder")
    content = tflite.convert(model, quantization="float32", text=make_text_graph(tokenizer, 12))
    interpreter = tflite.make_interpreter(content)
    texts = ["", *parity.SENTENCES]
    rows = [tokenizer.encode_pair(tokenizer.encode(text), None, 12) for text in texts]
    batch = parity.make_batch(rows)
    outputs = tflite.run(interpreter, {"text": np.array(texts, object)})
    np.testing.assert_array_equal(outputs["input_ids"], batch["input_ids"])
    np.testing.assert_array_equal(outputs["input_mask"], batch["input_mask"])
    expected = parity.source_outputs(model, parity.head_inputs(model.head_config, batch))
    for name in ("sequence_output", "pooled_output"):
        rows_of = {"sequence_output": batch["input_mask"].astype(bool)}.get(name, slice(None))
        np.testing.assert_allclose(outputs[name][rows_of], expected[name][rows_of], atol=2e-5)
    alone = tflite.run(interpreter, {"text": np.array(["Yes."], object)})
    np.testing.assert_allclose(alone["pooled_output"][0], outputs["pooled_output"][1], atol=2e-5)


def test_pairs_of_a_classifier(tokenizer: AlbertTokenizer) -> None:
    model = head_model(tokenizer, "classifier")
    content = tflite.convert(model, quantization="int8", text=make_text_graph(tokenizer, 20), pairs=True)
    texts, others = ["It rained all night.", "Yes."], ["The river rose and rose.", ""]
    rows = [
        tokenizer.encode_pair(tokenizer.encode(a), tokenizer.encode(b) or None, 20)
        for a, b in zip(texts, others, strict=True)
    ]
    inputs = parity.head_inputs(model.head_config, parity.make_batch(rows))
    found = tflite.run(
        tflite.make_interpreter(content), {"text": np.array(texts, object), "text_b": np.array(others, object)}
    )
    assert set(found) == {"logits"}
    np.testing.assert_allclose(found["logits"], parity.source_outputs(model, inputs)["logits"], atol=2e-2)


def test_an_answer_lies_in_the_second_text(tokenizer: AlbertTokenizer) -> None:
    model = make_model(
        tiny_config(tokenizer, num_hidden_layers=1),
        HeadConfig(head="conditional_span", start_n_top=9, end_n_top=2),
        seed=5,
    )
    content = tflite.convert(model, quantization="float32", text=make_text_graph(tokenizer, 30), pairs=True)
    question, context = "Who?", "A man."
    outputs = tflite.run(
        tflite.make_interpreter(content),
        {"text": np.array([question], object), "text_b": np.array([context], object)},
    )
    length_a, length_b = len(tokenizer.encode(question)), len(tokenizer.encode(context))
    assert outputs["input_ids"].shape == (1, max(9, length_a + length_b + 3))
    allowed = {0, *range(length_a + 2, length_a + 2 + length_b)}
    is_possible = outputs["start_top_log_probs"][0] > -1e20
    assert set(outputs["start_top_index"][0][is_possible].tolist()) == allowed


def test_door_reads_what_the_task_has(tokenizer: AlbertTokenizer, tmp_path: pathlib.Path) -> None:
    model = make_model(tiny_config(tokenizer, num_hidden_layers=1), HeadConfig(head="regression"), seed=5)
    config = TaskConfig(task="sts-b", max_seq_length=40)
    save_model_directory(
        tmp_path / "model",
        model,
        tokenizer,
        training={"max_seq_length": 40},
        files={TASK_CONFIG_NAME: config.to_json()},
    )
    path = tmp_path / "file.tflite"
    report = tflite.export_tflite(tmp_path / "model", path, tokenizer="inside")
    assert (report.metadata.tokenizer, report.metadata.takes_pairs) == ("inside", True)
    runner = tflite.make_interpreter(path.read_bytes()).get_signature_runner(tflite.SIGNATURE)
    assert sorted(runner.get_input_details()) == ["text", "text_b"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "outputs", "names"),
    [
        (None, ["pooled_output", "sequence_output"], ["text"]),
        ("sentence_order", ["sentence_order_logits"], ["text", "text_b"]),
    ],
)
def test_door_with_a_pretraining_model(
    directory: pathlib.Path, tmp_path: pathlib.Path, head: tflite.Head | None, outputs: list[str], names: list[str]
) -> None:
    path = tmp_path / "file.tflite"
    report = tflite.export_tflite(directory, path, quantization="float32", head=head, tokenizer="inside")
    assert sorted(report.agreement) == outputs
    runner = tflite.make_interpreter(path.read_bytes()).get_signature_runner(tflite.SIGNATURE)
    assert sorted(runner.get_input_details()) == names


@pytest.mark.slow
def test_choices(tokenizer: AlbertTokenizer, tmp_path: pathlib.Path) -> None:
    save_model_directory(tmp_path / "model", head_model(tokenizer, "multiple_choice"), tokenizer)
    report = tflite.export_tflite(tmp_path / "model", tmp_path / "file.tflite", tokenizer="inside")
    assert list(report.agreement) == ["logits"]


def test_what_cannot_be_inside_is_refused(directory: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="masked_lm outputs are for positions of masks, which texts have not"):
        tflite.export_tflite(directory, tmp_path / "a.tflite", head="pretraining", tokenizer="inside")
    with pytest.raises(ValueError, match="tokenizer must be one of inside, outside, got 'beside'"):
        tflite.export_tflite(directory, tmp_path / "a.tflite", tokenizer="beside")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"WordPiece vocabulary .* cannot go into a TFLite file yet"):
        make_text_graph(WordPieceTokenizer(b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n"), 20)
    assert list(tmp_path.iterdir()) == []
