"""Model directories: round trip, and a clear word on everything that can be wrong with one."""

from __future__ import annotations

import io
import json
import os
import weakref

import ml_dtypes
import numpy as np
import pytest
import sentencepiece
from safetensors.numpy import load_file, save_file

from albert_tf import model_directory
from albert_tf.config import AlbertConfig
from albert_tf.head_config import HeadConfig
from albert_tf.modeling.models import AlbertMaskedLMModel, AlbertPretrainingModel, make_model
from albert_tf.tokenizer import AlbertTokenizer, TokenizerConfig
from albert_tf.weight_files.safetensors_file import write_safetensors
from tests.modeling.small_models import HEAD_CASES, make_config, randomize


class UntrainedTokenizer(AlbertTokenizer):
    """A tokenizer of 37 pieces that has no pieces: what a model directory holds of it is bytes."""

    def __init__(self):
        self.model_proto = b"vocabulary"
        self.vocab_size = 37
        self.config = TokenizerConfig(lower_case=False)


CONFIG = AlbertConfig(
    vocab_size=37,
    embedding_size=6,
    hidden_size=20,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=28,
    max_position_embeddings=11,
)


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "model é"
    model_directory.save_model_directory(
        path, AlbertPretrainingModel(CONFIG, seed=3), UntrainedTokenizer(), training={"step": 5}
    )
    return path


def test_longest_sequence_is_what_was_trained(directory):
    def with_training(text):
        (directory / "training.json").write_text(text)
        return model_directory.read_max_seq_length(directory)

    assert with_training('{"step": 5}') == 11  # max_position_embeddings
    assert with_training('{"max_seq_length": 7}') == 7
    assert with_training('{"max_seq_length": 13}') == 11
    (directory / "training.json").unlink()
    assert model_directory.read_max_seq_length(directory) == 11


def test_folder_of_a_run_is_not_its_model(directory, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    with pytest.raises(FileNotFoundError) as caught:
        model_directory.read_config(run)
    assert "did you mean" not in str(caught.value)
    directory.rename(run / "model")
    with pytest.raises(FileNotFoundError, match=r"did you mean .*run/model\?"):
        model_directory.read_config(run)


def test_round_trip(directory):
    loaded = model_directory.load_model(directory)
    assert loaded.config == CONFIG
    expected = AlbertPretrainingModel(CONFIG, seed=3).named_weights()
    for name, variable in loaded.named_weights().items():
        np.testing.assert_array_equal(variable, expected[name], err_msg=name)
    assert model_directory.read_training(directory) == {"step": 5}
    assert sorted(p.name for p in directory.iterdir()) == [
        "albert_config.json",
        "model.safetensors",
        "spiece.model",
        "tokenizer_config.json",
        "training.json",
    ]


@pytest.mark.parametrize("name", HEAD_CASES)
def test_round_trip_of_every_head(tmp_path, name):
    head = HEAD_CASES[name]
    model = make_model(make_config(embedding_factorization="words"), head)
    randomize(model.named_weights())
    model_directory.save_model_directory(tmp_path / "m", model, None)
    names = ["albert_config.json", *(["head_config.json"] if name != "pretraining" else []), "model.safetensors"]
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == names
    assert model_directory.read_head_config(tmp_path / "m") == head
    assert not model_directory.has_tokenizer(tmp_path / "m")
    loaded = model_directory.load_model(tmp_path / "m")
    assert type(loaded) is type(model)
    assert (loaded.config, loaded.head_config) == (model.config, head)
    expected = model.named_weights()
    for key, variable in loaded.named_weights().items():
        assert variable.numpy().tobytes() == expected[key].numpy().tobytes(), key


def test_pretraining_directory_keeps_what_is_not_the_default(tmp_path):
    head = HeadConfig(dropout_prob=0.2)
    model_directory.save_model_directory(tmp_path / "m", AlbertPretrainingModel(CONFIG, head, seed=3), None)
    assert model_directory.read_head_config(tmp_path / "m") == head


def test_other_heads_are_refused(tmp_path):
    model = AlbertMaskedLMModel(CONFIG, HeadConfig(head="masked_lm"), seed=3)
    model_directory.save_model_directory(tmp_path / "m", model, UntrainedTokenizer())
    message = (
        "has the head 'masked_lm'; export.x takes a model with the head 'pretraining', as albert_tf.pretrain writes"
    )
    with pytest.raises(ValueError, match=message):
        model_directory.load_pretraining_model(tmp_path / "m", reader="export.x")
    assert model_directory.check_head(tmp_path / "m", ("encoder", "masked_lm"), reader="x").head == "masked_lm"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"head": "poet"}', r"head_config\.json: head must be one of pretraining, masked_lm, .*, got 'poet'"),
        ('{"heads": 3}', r"head_config\.json: unknown key 'heads'"),
        ("{", r"head_config\.json:1:2: not valid JSON"),
    ],
)
def test_damaged_head_is_named(directory, content, message):
    (directory / "head_config.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        model_directory.load_model(directory)


def test_weights_of_another_head_are_refused(directory):
    (directory / "head_config.json").write_text('{"head": "classifier", "num_labels": 3}')
    message = r"2 missing \(first: classifier/bias\), 7 unknown \(first: masked_lm/dense/bias\)"
    with pytest.raises(ValueError, match=message):
        model_directory.load_model(directory)


@pytest.mark.parametrize("narrow", [np.float16, ml_dtypes.bfloat16])
def test_narrow_weights_load_into_wide_variables(directory, narrow):
    path = directory / "model.safetensors"
    weights = {name: value.astype(narrow) for name, value in load_file(path).items()}
    write_safetensors(path, weights)
    loaded = model_directory.load_model(directory)
    for name, variable in loaded.named_weights().items():
        assert variable.dtype == "float32"
        np.testing.assert_array_equal(variable, weights[name].astype(np.float32), err_msg=name)
    weights["sentence_order/bias"] = np.array([1, "nan"], np.float32).astype(narrow)
    write_safetensors(path, weights)
    with pytest.raises(ValueError, match="sentence_order/bias holds values that are not finite"):
        model_directory.load_model(directory)


def test_narrow_variables_are_stored_as_they_are(tmp_path):
    model = AlbertPretrainingModel(CONFIG, seed=3, dtype="bfloat16")
    model_directory.save_model_directory(tmp_path / "m", model, None)
    with model_directory.open_weights_file(tmp_path / "m") as file:
        assert {info.dtype for info in file.tensors.values()} == {"bfloat16"}
    loaded = model_directory.load_model(tmp_path / "m", dtype="bfloat16").named_weights()
    for name, variable in model.named_weights().items():
        assert loaded[name].dtype == "bfloat16"
        np.testing.assert_array_equal(loaded[name].numpy(), variable.numpy(), err_msg=name)


def test_one_weight_at_a_time(directory):
    """A mapping is asked for each weight once, in either direction, and who writes lets go of one before the next."""
    alive, most, asked = 0, 0, []

    class Array(np.ndarray):
        pass

    class Lazy(dict):
        def __getitem__(self, name):
            nonlocal alive, most
            value = super().__getitem__(name).view(Array)
            weakref.finalize(value, release)
            alive, most = alive + 1, max(most, alive + 1)
            asked.append(name)
            return value

    def release():
        nonlocal alive
        alive -= 1

    weights = Lazy(load_file(directory / "model.safetensors"))
    (directory.parent / "written").mkdir()
    model_directory.write_model_directory(directory.parent / "written", CONFIG, HeadConfig(), weights, None)
    assert sorted(asked) == sorted(weights)
    assert (alive, most) == (0, 1)
    asked.clear()
    model_directory.assign_weights(AlbertPretrainingModel(CONFIG).named_weights(), weights, source="x")
    assert sorted(asked) == sorted(weights)


def test_dtype_is_the_callers():
    assert AlbertPretrainingModel(CONFIG, dtype="float64").weights[0].dtype == "float64"


def test_weights_file_holds_each_weight_once(directory):
    parameters = sum(w.size for w in load_file(directory / "model.safetensors").values())
    assert parameters == AlbertPretrainingModel(CONFIG).count_params()


def test_directory_with_content_is_kept(directory):
    before = {p.name: p.read_bytes() for p in directory.iterdir()}
    with pytest.raises(ValueError, match="has content already"):
        model_directory.save_model_directory(directory, AlbertPretrainingModel(CONFIG, seed=4), UntrainedTokenizer())
    assert {p.name: p.read_bytes() for p in directory.iterdir()} == before
    assert [p.name for p in directory.parent.iterdir()] == [directory.name]


def test_directory_is_replaced_when_asked(directory):
    other = AlbertPretrainingModel(CONFIG, seed=4)
    model_directory.save_model_directory(directory, other, UntrainedTokenizer(), replace=True)
    loaded = model_directory.load_model(directory)
    np.testing.assert_array_equal(loaded.weights[0], other.weights[0])
    assert [p.name for p in directory.parent.iterdir()] == [directory.name]


def test_other_vocabulary_size_is_refused(tmp_path):
    model = AlbertPretrainingModel(CONFIG.replace(vocab_size=38))
    with pytest.raises(ValueError, match="the tokenizer has 37 pieces, the model was made for 38"):
        model_directory.save_model_directory(tmp_path / "m", model, UntrainedTokenizer())
    assert not list(tmp_path.iterdir())


def test_missing_directory(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        model_directory.load_model(tmp_path / "nowhere")


def test_damaged_weights_are_named(directory):
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"model\.safetensors: cut short: has \d+ bytes, its header says \d+"):
        model_directory.load_model(directory)


def test_weights_of_another_configuration_are_refused(directory):
    config = json.loads((directory / "albert_config.json").read_text())
    (directory / "albert_config.json").write_text(json.dumps({**config, "intermediate_size": 36}))
    with pytest.raises(ValueError, match=r"feed_forward/intermediate/kernel has shape \[20, 28\], .* needs \[20, 36\]"):
        model_directory.load_model(directory)
    (directory / "albert_config.json").write_text(json.dumps({**config, "num_hidden_groups": 2}))
    with pytest.raises(
        ValueError, match=r"16 missing \(first: encoder/group_1/inner_0/attention/key/bias\), 0 unknown"
    ):
        model_directory.load_model(directory)


def test_left_over_weight_is_refused(directory):
    path = directory / "model.safetensors"
    save_file({**load_file(path), "extra": np.ones(3, np.float32)}, path)
    with pytest.raises(ValueError, match=r"0 missing, 1 unknown \(first: extra\)"):
        model_directory.load_model(directory)


def test_broken_vocabulary_is_named(directory):
    with pytest.raises(ValueError, match=r"spiece\.model: not a SentencePiece model"):
        model_directory.load_tokenizer(directory)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda value: value.astype(np.int32), "must hold floating-point numbers, got int32"),
        (lambda value: value * np.float32("nan"), "holds values that are not finite"),
        (lambda value: value + np.float32("inf"), "holds values that are not finite"),
    ],
)
def test_weights_that_are_no_finite_numbers(directory, change, message):
    path = directory / "model.safetensors"
    weights = load_file(path)
    name = sorted(weights)[-1]
    save_file({**weights, name: change(weights[name])}, path)
    with pytest.raises(ValueError, match=f"model.safetensors: {name} {message}"):
        model_directory.load_model(directory)


def test_tokenizer_of_another_model(tmp_path):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["an bel cor dis en"] * 9), model_writer=model, vocab_size=18, pad_id=0, unk_id=1,
        bos_id=-1, eos_id=-1, control_symbols=["[CLS]", "[SEP]", "[MASK]"], pad_piece="<pad>", minloglevel=2,
    )  # fmt: skip
    (tmp_path / "spiece.model").write_bytes(model.getvalue())
    (tmp_path / "tokenizer_config.json").write_text("{}")
    assert model_directory.load_tokenizer(tmp_path).vocab_size == 18
    (tmp_path / "albert_config.json").write_text(CONFIG.to_json())
    with pytest.raises(ValueError, match=r"spiece\.model: has 18 pieces, but albert_config\.json .* vocab_size 37"):
        model_directory.load_tokenizer(tmp_path)


def test_a_pipe_is_not_waited_for(directory):
    for name in ("albert_config.json", "model.safetensors"):
        path = directory / name
        content = path.read_bytes()
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(OSError, match="is no regular file"):
            model_directory.load_model(directory)
        path.unlink()
        path.write_bytes(content)


@pytest.mark.parametrize("value", ['"32"', "true", "-5", "1.5", "null", "4"])
def test_trained_length_of_another_kind(directory, value):
    (directory / "training.json").write_text(f'{{"max_seq_length": {value}}}')
    with pytest.raises(ValueError, match=r"training\.json: max_seq_length must be a whole number of at least 5"):
        model_directory.read_max_seq_length(directory)


def test_absurd_json(directory):
    path = directory / "albert_config.json"
    for content, message in (
        ("[" * 100_000, "nested too deep"),
        ('{"hidden_size": ' + "9" * 5000 + "}", "thousands of digits"),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match=rf"albert_config\.json: not valid JSON: .*{message}"):
            model_directory.read_config(directory)
    path.write_text('{"num_hidden_layers": 1000000000}')
    with pytest.raises(ValueError, match="num_hidden_layers must be at most 1000, got 1000000000"):
        model_directory.read_config(directory)
