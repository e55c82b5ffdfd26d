"""Programs drawn for the network alone: puts in all directions, with waits between engines."""

import random

import numpy as np

from tokenpath.hw.arch.isa import REGISTERS, Instr, Op, PutOp
from tokenpath.hw.arch.params import Arch
from tokenpath.hw.arch.program import Code, Program


def traffic(arch: Arch, seed: int, puts: int = 4, words: int = 20, most: int = 3) -> Program:
    """Every tile puts to random tiles; memory and compute engines hand tokens around.

    Each tile has 64 words that it sends from. Areas at the start of the inbox, which are read as
    logits, take sums and maxima; stores, whose order isn't defined, go behind them. The compute
    engine waits for all arrivals.
    """
    rng = random.Random(seed)
    tiles, inbox = arch.tiles, arch.scratch_words
    arrivals = [0] * tiles
    tables: list[list[tuple[int, int, int, int]]] = [[] for _ in range(tiles)]
    networks: list[list[Instr]] = [[] for _ in range(tiles)]
    for tile in range(tiles):
        for put in range(puts):
            count, op = rng.randint(0, most), rng.choice(tuple(PutOp))
            for _ in range(count):
                to, size = rng.randrange(tiles), rng.randint(0, words)
                at = (tile * puts + put) * words if op == PutOp.STORE else rng.randint(0, 5)
                base = {PutOp.STORE: 64, PutOp.ADD: 0, PutOp.MAX: 32}[op]
                tables[tile].append((to, rng.randint(0, 64 - words), size, base + at))
                arrivals[to] += 1
            first = len(tables[tile]) - count
            networks[tile].append(
                Instr(op=Op.PUT, dst=inbox, aux=first, m=count, x=op, y=4, post=rng.choice((0, 1)))
            )
            if rng.random() < 0.4:
                networks[tile].append(Instr(op=Op.SYNC, post=2))
    codes = []
    for tile, network in enumerate(networks):
        ones = sum(i.post == 1 for i in network)
        twos = sum(i.post == 2 for i in network)
        memory = [Instr(op=Op.SYNC, wait=1, wait_n=1, post=3) for _ in range(ones)]
        compute = [Instr(op=Op.SYNC, wait=2, wait_n=twos)] if twos else []
        compute += [Instr(op=Op.SYNC, wait=3, wait_n=ones)] if ones else []
        compute += [Instr(op=Op.SYNC, wait=4, wait_n=arrivals[tile])] if arrivals[tile] else []
        engines = (memory, compute, network)
        codes.append(
            Code(
                engines=tuple(tuple(i.columns() for i in e) for e in engines),
                labels=tuple(("drawn",) * len(e) for e in engines),
            )
        )
    longest = max(1, *(len(table) for table in tables))
    descriptors = np.zeros((tiles, longest, 4), np.int32)
    for tile, table in enumerate(tables):
        if table:
            descriptors[tile, : len(table)] = table
    values = np.random.default_rng(seed)
    own = values.integers(-(2**31), 2**31, (tiles, 64)).astype(np.int32)
    blocks = arch.blocks_per_beat
    return Program(
        arch=arch, code=tuple(codes), tile_code=tuple(range(tiles)),
        registers=memoryview(np.zeros((tiles, REGISTERS), np.int32)),
        descriptors=memoryview(descriptors), vector_shared=memoryview(np.zeros(0, np.int32)),
        vector_tile=memoryview(own),
        elements=memoryview(np.zeros((tiles, 1, arch.lanes), np.int8)),
        scales=memoryview(np.zeros((tiles, 1, blocks), np.int16)),
        store_beats_used=1, rules=(), shards_of=(-1,) * tiles, shards=1, page=1, context=8,
        vocab=tiles * 64, logits_at=inbox, logit_words=(64,) * tiles,
        logit_first=tuple(64 * t for t in range(tiles)), result_tile=0, result_at=inbox,
    )  # fmt: skip
