"""Named shapes: their sizes against the published parameter counts."""

import pytest

from tokenpath.sw.model.presets import NOT_YET, SHAPES, shape_named

# Parameters as the makers count them, embeddings included.
PUBLISHED = {
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.2-1b": 1_235_814_400,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
    "qwen3-32b": 32_762_123_264,
    "mistral-7b-v0.1": 7_241_732_096,
    "smollm2-135m": 134_515_008,
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_preset_has_the_published_number_of_parameters(name):
    assert shape_named(name).parameters == PUBLISHED[name]
    assert shape_named(name).name == name


def test_windows_and_norms_are_where_they_belong():
    assert set(SHAPES["mistral-7b-v0.1"].windows) == {4096}
    assert all(
        set(shape.windows) == {None} for shape in SHAPES.values() if shape.name[:7] != "mistral"
    )
    assert {name for name, shape in SHAPES.items() if shape.qk_norm} == {
        "qwen3-0.6b",
        "qwen3-8b",
        "qwen3-32b",
    }


@pytest.mark.parametrize("name", NOT_YET)
def test_what_is_not_supported_yet_is_refused_by_name(name, refused):
    message = refused(shape_named, name)
    assert f"model {name!r} needs" in message and "not supported yet" in message


def test_an_unknown_name_is_none():
    assert shape_named("llama-9") is None
