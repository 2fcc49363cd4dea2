from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertLMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from diffattn.errors import UserError
from diffattn.models import DiffTransformerConfig, DiffTransformerForCausalLM
from diffattn.training import load_pretrained
from diffattn.training import pretrained as pretrained_module

STORIES = Path(__file__).resolve().parents[3] / "shared" / "data" / "stories260k"
SIZES = {"vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 1, "intermediate_size": 24}
LLAMA = LlamaConfig(**SIZES, num_attention_heads=2, bos_token_id=None, eos_token_id=None)

BART = BartConfig(vocab_size=20, d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=16, decoder_ffn_dim=16)


def save_tokenizer(folder):
    backend = Tokenizer(models.WordLevel({f"w{i}": i for i in range(20)}, unk_token="w0"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(folder)


def save(model, folder):
    model.save_pretrained(folder)
    save_tokenizer(folder)
    return folder


@pytest.fixture
def llama(tmp_path):
    torch.manual_seed(0)
    return save(LlamaForCausalLM(LLAMA).half(), tmp_path / "llama")


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch):
    monkeypatch.setattr(pretrained_module, "choose_device", lambda: torch.device("cpu"))


def test_a_folder(llama):
    loaded = load_pretrained(llama)
    assert loaded.name == str(llama)
    assert type(loaded.model) is LlamaForCausalLM
    assert loaded.model.dtype == torch.float32
    assert not loaded.model.training
    assert loaded.tokenizer("w3 w5")["input_ids"] == [3, 5]


def test_one_of_ours(tmp_path):
    model = DiffTransformerForCausalLM(DiffTransformerConfig.from_baseline(LLAMA, "v2"))
    loaded = load_pretrained(save(model, tmp_path / "v2"))
    ids = torch.arange(7)[None]
    torch.testing.assert_close(loaded.model(ids).logits, model.eval()(ids).logits)


def test_the_pretrained_stories():
    if not STORIES.is_dir():
        pytest.skip(f"no pretrained model in {STORIES}")
    loaded = load_pretrained(STORIES)
    text = loaded.tokenizer("Once upon a time, there was a little", return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        following = loaded.model(text).logits[0, -1].argmax()
    assert loaded.tokenizer.decode(following).strip() in ("girl", "boy", "b", "g")


def test_a_folder_never_asks_the_network(llama, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("asked the network")

    asked = []
    for auto in (AutoConfig, AutoTokenizer, AutoModelForCausalLM):
        original = auto.from_pretrained

        def load(name, original=original, **options):
            asked.append((options["local_files_only"], options["trust_remote_code"]))
            return original(name, **options)

        monkeypatch.setattr(auto, "from_pretrained", load)
    monkeypatch.setattr("socket.socket.connect", refuse)
    load_pretrained(llama)
    assert len(asked) >= 3
    assert set(asked) == {(True, False)}


def assert_refused(name, match):
    with pytest.raises(UserError, match=match) as caught:
        load_pretrained(name)
    assert "\n" not in str(caught.value)


def test_nothing_there(tmp_path, llama):
    assert_refused(tmp_path / "none", "there is no folder .*none: name one that save_pretrained wrote")
    assert_refused(llama / "config.json", "there is no folder")
    (tmp_path / "empty").mkdir()
    assert_refused(tmp_path / "empty", "holds no model")


@pytest.mark.parametrize(
    ("files", "match"),
    [("tokenizer*", "holds no tokenizer"), ("*.safetensors", r"holds no \*.safetensors weights")],
)
def test_what_is_missing(llama, files, match):
    for path in llama.glob(files):
        path.unlink()
    torch.save({}, llama / "pytorch_model.bin")
    assert_refused(llama, match)


def test_hub_names(monkeypatch):
    asked = []

    def unreachable(name, **options):
        asked.append((name, options))
        raise OSError(f"{name} is not a local folder and is not a valid model identifier\nand more")

    monkeypatch.setattr(pretrained_module.AutoConfig, "from_pretrained", unreachable)
    assert_refused("someone/some-model", "the model someone/some-model cannot be loaded: .* valid model identifier$")
    assert asked == [("someone/some-model", {"local_files_only": False, "trust_remote_code": False})]


def change_config(folder, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_code_of_its_own_is_never_run(llama):
    (llama / "own.py").write_text("raise AssertionError('was run')\n")
    change_config(llama, model_type="own", auto_map={"AutoConfig": "own.C", "AutoModelForCausalLM": "own.M"})
    assert_refused(llama, "needs code of its own, which is never run here")


def test_an_unknown_architecture(llama):
    change_config(llama, model_type="of-the-future")
    assert_refused(llama, "cannot be loaded: .*of-the-future")


def test_weights_of_another_model(llama):
    change_config(llama, num_hidden_layers=2)
    assert_refused(llama, r"lack model.layers.1\S+ \(9 in all\)")
    change_config(llama, num_hidden_layers=1, hidden_size=32)
    assert_refused(llama, "the weights of .* cannot be loaded")


def test_weights_that_are_no_safetensors(llama):
    (llama / "model.safetensors").write_bytes(b"nothing of the kind")
    assert_refused(llama, "the weights of .* cannot be loaded")


OTHERS = {
    "an encoder": (BertLMHeadModel, BertConfig(**SIZES, num_attention_heads=2), "its tokens see those that follow"),
    "an encoder-decoder": (
        T5ForConditionalGeneration,
        T5Config(vocab_size=20, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2),
        r"is no causal language model \(model_type t5\)",
    ),
    "an encoder-decoder that has a causal class": (
        BartForConditionalGeneration,
        BART,
        r"is no causal language model \(model_type bart\)",
    ),
    "no attention": (
        MambaForCausalLM,
        MambaConfig(vocab_size=20, hidden_size=16, state_size=4, num_hidden_layers=1),
        r"has no softmax attention \(model_type mamba\)",
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_kinds_of_model(kind, tmp_path):
    torch.manual_seed(0)
    model, config, match = OTHERS[kind]
    built = model(config)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.normal_(std=0.3)
    assert_refused(save(built, tmp_path / "other"), match)


def test_a_decoder_of_the_encoder_kind_is_causal(tmp_path):
    config = BertConfig(**SIZES, num_attention_heads=2, is_decoder=True)
    assert load_pretrained(save(BertLMHeadModel(config), tmp_path / "decoder")).model.config.is_decoder


def test_sharded_weights(llama, tmp_path):
    sharded = tmp_path / "sharded"
    load_pretrained(llama).model.save_pretrained(sharded, max_shard_size="2KB")
    shutil.copy(llama / "tokenizer.json", sharded)
    assert len(list(sharded.glob("*.safetensors"))) > 1
    assert load_pretrained(sharded).model.num_parameters() == load_pretrained(llama).model.num_parameters()
