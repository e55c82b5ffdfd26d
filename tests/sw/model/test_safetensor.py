"""safetensors files: exact values of three dtypes, and no trust in the header."""

import json

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tokenpath.hw.arch.errors import InputError
from tokenpath.sw.model.safetensor import read_header


def write(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def entry(dtype="F32", shape=(2, 3), offsets=(0, 24)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_what_the_library_writes_is_read_back(tmp_path, kind):
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=s).astype(kind) for name, s in {"a": (3, 5), "b": (7,)}.items()}
    safetensors.numpy.save_file(arrays, tmp_path / "x", metadata={"format": "pt"})
    tensors = read_header(tmp_path / "x")
    assert tensors.keys() == arrays.keys()
    for name, array in arrays.items():
        read = tensors[name].read()
        assert read.dtype == np.float32 and np.array_equal(read, array.astype(np.float32))


def test_bfloat16_is_read_exactly(tmp_path):
    bits = np.array([[0x3F80, 0xC020, 0x0001]], "<u2")
    path = write(tmp_path / "x", {"a": entry("BF16", (1, 3), (0, 6))}, bits.tobytes())
    assert read_header(path)["a"].read().tolist() == [[1.0, -2.5, 2.0**-133]]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"a": entry(offsets=(0, 25))}, "is truncated: tensor 'a' ends at byte"),
        ({"a": entry(offsets=(0, 23))}, "has 23 bytes, its shape [2, 3] as F32 needs 24"),
        ({"a": entry(offsets=(4, 0))}, "is truncated"),
        ({"a": entry(offsets=(-24, 0))}, "is truncated"),
        ({"a": entry(shape=(1 << 40, 1 << 40))}, "as F32 needs"),
        ({"a": entry(shape=(-2, -3))}, "header entry of tensor 'a' is malformed"),
        ({"a": entry(shape=(1,) * 9)}, "is malformed"),
        ({"a": {**entry(), "dtype": 3}}, "is malformed"),
        ({"a": {**entry(), "data_offsets": [0]}}, "is malformed"),
        ({"a": {**entry(), "shape": 6}}, "is malformed"),
        ({"a": 5}, "is malformed"),
        ([], "holds a JSON list"),
        (b"{", "is no valid JSON"),
        (b"\xff\xff", "is no valid JSON"),
        (b"", "is no valid JSON"),
    ],
    ids=str,
)
def test_a_header_that_lies_is_refused(tmp_path, refused, header, message):
    path = write(tmp_path / "x", header, bytes(24))
    answer = refused(read_header, path)
    assert message in answer and str(path) in answer


@pytest.mark.parametrize("dtype", ["F64", "I8", "F8_E4M3", "BOOL", "NEW"])
def test_another_dtype_is_refused_by_name(tmp_path, refused, dtype):
    tensor = read_header(write(tmp_path / "x", {"w": entry(dtype)}, bytes(24)))["w"]
    answer = refused(tensor.read)
    assert f"tensor w has dtype {dtype}; convert it to one of F32, F16, BF16" in answer


def test_an_enormous_header_is_refused_without_reading_it(tmp_path, refused, peak_bytes):
    path = tmp_path / "x"
    for claim in (2**64 - 1, 2**40, 1 << 25):
        path.write_bytes(claim.to_bytes(8, "little") + b"{}")
        with path.open("r+b") as file:
            file.truncate(1 << 26)  # sparse
        if claim == 1 << 25:
            assert "its header claims 33554432" in refused(read_header, path)
        assert peak_bytes(read_header, path) < 1 << 20


def test_every_truncation_is_refused(tmp_path):
    safetensors.numpy.save_file({"a": np.ones((3, 4), np.float32)}, tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()
    for size in range(len(whole)):
        (tmp_path / "part").write_bytes(whole[:size])
        with pytest.raises(InputError):
            read_header(tmp_path / "part")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_but_never_worse(tmp_path, data):
    safetensors.numpy.save_file({"a": np.ones((2, 2), np.float16)}, tmp_path / "whole")
    damaged = bytearray((tmp_path / "whole").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "x").write_bytes(damaged)
    try:
        for tensor in read_header(tmp_path / "x").values():
            tensor.read()
    except InputError as error:
        assert "\n" not in str(error)


def test_a_missing_file_is_refused(tmp_path, refused):
    assert "No such file" in refused(read_header, tmp_path / "none")
