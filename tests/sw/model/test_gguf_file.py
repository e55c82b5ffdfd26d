"""GGUF files: exact values of each type, and no trust in the header."""

import struct

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tokenpath.hw.arch.errors import InputError
from tokenpath.sw.model.gguf_file import KINDS, dequantise, read_header

Kind = gguf.GGMLQuantizationType


def text(value):
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def header(*, tensors=b"", tensor_count=0, entries=b"", entry_count=0, version=3):
    counts = struct.pack("<IQQ", version, tensor_count, entry_count)
    return b"GGUF" + counts + entries + tensors


def entry(key, kind, value):
    return text(key) + struct.pack("<I", kind) + value


def info(name, dims, kind=0, offset=0):
    packed = b"".join(struct.pack("<Q", dim) for dim in dims)
    return text(name) + struct.pack("<I", len(dims)) + packed + struct.pack("<IQ", kind, offset)


@pytest.fixture
def write(tmp_path):
    def put(data):
        path = tmp_path / "x.gguf"
        path.write_bytes(data)
        return path

    return put


@pytest.mark.parametrize("kind", KINDS.values())
def test_each_type_is_dequantised_as_the_library_does(kind):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(48, 64)).astype(np.float32) * np.float32(10) ** rng.integers(
        -4, 4, (48, 1)
    )
    rows[3] = 0
    stored = gguf.quantize(rows.astype(np.float32), Kind[kind])
    ours = dequantise(np.ascontiguousarray(stored).view(np.uint8).reshape(-1), kind)
    theirs = np.asarray(gguf.dequantize(stored, Kind[kind]), np.float32).reshape(-1)
    assert ours.dtype == np.float32 and np.array_equal(ours, theirs)
    assert np.abs(ours - rows.reshape(-1)).max() < np.abs(rows).max() / 7


def test_what_the_library_writes_is_read_back(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    writer.add_uint32("a.count", 7)
    writer.add_float32("a.theta", 0.5)
    writer.add_bool("a.flag", True)
    writer.add_string("a.name", "näme")
    writer.add_array("a.words", ["x", "", "Ġy"])
    writer.add_array("a.numbers", [1, -2, 3])
    writer.add_uint64("a.long", 1 << 40)
    writer.add_custom_alignment(64)
    arrays = {"m": np.arange(12, dtype=np.float32).reshape(3, 4), "v": np.ones(5, np.float16)}
    for name, array in arrays.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = read_header(tmp_path / "x.gguf")
    assert file.metadata["a.count"] == 7 and file.metadata["a.theta"] == 0.5
    assert file.metadata["a.flag"] is True and file.metadata["a.name"] == "näme"
    assert file.metadata["a.words"] == ["x", "", "Ġy"] and file.metadata["a.long"] == 1 << 40
    assert file.metadata["a.numbers"].tolist() == [1, -2, 3]
    for name, array in arrays.items():
        assert file.tensors[name].offset % 64 == 0
        assert np.array_equal(file.tensors[name].read(), array)


LONG = struct.pack("<Q", 1 << 60)
LIES = {
    "empty": (b"", "is not a GGUF file"),
    "another file": (b"GGML" + bytes(30), "is not a GGUF file"),
    "version 1": (header(version=1), "has GGUF version 1"),
    "big-endian": (header(version=3 << 24), "has GGUF version 50331648"),
    "tensors": (header(tensor_count=1 << 60), "claims 1152921504606846976 tensors"),
    "entries": (header(entry_count=(1 << 64) - 1), "metadata entries, more than 65536"),
    "few tensors": (header(tensor_count=65536), "truncated or damaged"),
    "key length": (
        header(entry_count=1, entries=LONG),
        "1152921504606846976 more bytes at byte 32",
    ),
    "key text": (header(entry_count=1, entries=text(b"\xff\xff")), "a metadata key is not text"),
    "text length": (header(entry_count=1, entries=entry("k", 8, LONG)), "more bytes at byte"),
    "value text": (
        header(entry_count=1, entries=entry("k", 8, text(b"\xff"))),
        "is not text in UTF-8",
    ),
    "value type": (
        header(entry_count=1, entries=entry("k", 13, LONG)),
        "'k' has the unknown type 13",
    ),
    "array length": (
        header(entry_count=1, entries=entry("k", 9, struct.pack("<I", 8) + LONG)),
        "claims 1152921504606846976 elements of 'k'",
    ),
    "array of bytes": (
        header(entry_count=1, entries=entry("k", 9, struct.pack("<IQ", 0, 1 << 40))),
        "elements of 'k'",
    ),
    "array type": (
        header(entry_count=1, entries=entry("k", 9, struct.pack("<IQ", 99, 2) + bytes(9))),
        "'k' has the unknown type 99",
    ),
    "arrays of arrays": (
        header(entry_count=1, entries=entry("k", 9, struct.pack("<IQ", 9, 1) * 1000)),
        "'k' is an array of arrays",
    ),
    "twice": (header(entry_count=2, entries=entry("k", 7, b"\1") * 2), "'k' stands twice"),
    "dimensions": (
        header(tensor_count=1, tensors=text("t") + struct.pack("<I", 1 << 30)),
        "claims 1073741824 dimensions of tensor 't'",
    ),
    "elements": (
        header(tensor_count=1, tensors=info("t", [1 << 63])),
        "claims 9223372036854775808 elements in 't'",
    ),
    "all elements": (
        header(tensor_count=1, tensors=info("t", [1 << 48] * 4)),
        "tensor 't' ends at byte",
    ),
    "no elements": (header(tensor_count=1, tensors=info("t", [4, 0])), "tensor 't' is empty"),
    "no dimensions": (header(tensor_count=1, tensors=info("t", [])), "tensor 't' is empty"),
    "offset": (
        header(tensor_count=1, tensors=info("t", [2], offset=(1 << 64) - 8)) + bytes(99),
        "tensor 't' ends at byte",
    ),
    "rows": (
        header(tensor_count=1, tensors=info("t", [33, 2], kind=8)) + bytes(199),
        "rows of tensor t have 33 elements, type Q8_0 wants a multiple of 32",
    ),
    "tensor twice": (
        header(tensor_count=2, tensors=info("t", [2]) * 2) + bytes(99),
        "tensor 't' stands twice",
    ),
    "alignment": (
        header(entry_count=1, entries=entry("general.alignment", 4, struct.pack("<I", 48))),
        "general.alignment 48 is no power of two",
    ),
    "alignment 0": (
        header(entry_count=1, entries=entry("general.alignment", 4, bytes(4))),
        "general.alignment 0 is no power",
    ),
    "alignment of text": (
        header(entry_count=1, entries=entry("general.alignment", 8, text("x"))),
        "general.alignment 'x' is no power",
    ),
}


@pytest.mark.parametrize("case", LIES)
def test_a_header_that_lies_is_refused_and_takes_no_memory(write, refused, peak_bytes, case):
    data, message = LIES[case]
    path = write(data)
    assert message in refused(read_header, path)
    assert peak_bytes(read_header, path) < 4 << 20


def test_a_large_file_lets_no_count_take_more_than_the_header_may(write, peak_bytes):
    """A sparse 1 TB file: every count fits the size, so only the bound on headers helps."""
    many = entry("k", 9, struct.pack("<IQ", 8, 1 << 33))
    path = write(header(entry_count=1, entries=many))
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    assert peak_bytes(read_header, path) < 4 << 20
    path = write(header(entry_count=1, entries=entry("k", 8, struct.pack("<Q", 1 << 35))))
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    assert peak_bytes(read_header, path) < 4 << 20


@pytest.mark.parametrize(
    ("number", "name"), [(6, "Q5_0"), (12, "Q4_K"), (28, "F64"), (39, "MXFP4"), (77, "number 77")]
)
def test_another_type_is_refused_by_name(write, refused, number, name):
    data = header(tensor_count=1, tensors=info("blk.0.x", [256], kind=number)) + bytes(999)
    tensor = read_header(write(data)).tensors["blk.0.x"]
    assert f"tensor blk.0.x has type {name}; convert it to one of F32, F16" in refused(tensor.read)


def sample():
    entries = entry("general.alignment", 4, struct.pack("<I", 8))
    entries += entry("words", 9, struct.pack("<IQ", 8, 2) + text("ab") + text("Ġ"))
    entries += entry("kinds", 9, struct.pack("<IQ3i", 5, 3, 1, 2, 3)) + entry("f", 7, b"\0")
    tensors = info("a", [32, 2], kind=8) + info("b", [4], offset=72)
    data = header(tensor_count=2, tensors=tensors, entry_count=4, entries=entries)
    return data + bytes(-len(data) % 8) + bytes(72) + np.ones(4, np.float32).tobytes()


def test_every_truncation_is_refused(write):
    whole = sample()
    assert read_header(write(whole)).tensors["b"].read().tolist() == [1] * 4
    for size in range(len(whole)):
        path = write(whole[:size])
        with pytest.raises(InputError):
            read_header(path)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_but_never_worse(write, data):
    damaged = bytearray(sample())
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        for tensor in read_header(write(damaged)).tensors.values():
            tensor.read()
    except InputError as error:
        assert "\n" not in str(error)


def test_a_missing_file_is_refused(tmp_path, refused):
    assert "No such file" in refused(read_header, tmp_path / "none.gguf")
    assert "Is a directory" in refused(read_header, tmp_path)
