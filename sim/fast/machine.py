"""FastMachine: a program's tiles between steps, and ``run``."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokenpath.hw.arch.isa import Engine
from tokenpath.hw.arch.program import Program
from tokenpath.sim.run import Run, Step, drive

from . import columns as c
from . import network_tables, tables
from .jit import announce
from .ledger import Tracer
from .ledger import trace as trace_back
from .loop import simulate, simulate_any
from .recorder import Recorder
from .state import I64, addresses

REFUSED = {
    c.OVERWRITTEN: "overwrites beats of a STREAM that no operation has taken",
    c.UNEQUAL: "takes another number of beats than its STREAM has",
}


class FastMachine:
    """A program on the cycle-level array simulator.

    ``values`` computes the numbers, too (needs a program with weights, otherwise it is off);
    ``trace`` keeps a record of each instruction for the ledger. Without values a step's ``logits``
    is None and its ``best`` 0. With ``record`` the packets of the last step are in ``packets``, as
    ``Recorder.take`` has them.
    """

    def __init__(
        self, program: Program, values: bool = True, trace: bool = True, record: bool = False
    ) -> None:
        program.arch.router.check_programs()
        self.program = program
        self.has_values = values and program.elements is not None
        self.trace = trace
        self.code = tables.CodeTable.build(program)
        self.network = network_tables.network(program.arch)
        self.engines = tables.engines(
            program, self.code, self.network, trace=trace, logging=self.has_values or record
        )
        self.recorder = Recorder(program.arch) if record else None
        self.packets = np.zeros((0, 4), np.int64)
        self.class_of = np.array(program.tile_code, np.int64)
        self.tracer = Tracer(self.code.first, self.code.label_of, self.code.labels)
        self.replayer: Any = None
        self.simulate = simulate_any if self.engines.constants[c.ANY] else simulate
        kernels: list[Any] = [self.simulate, *([trace_back] if trace else [])]
        if self.has_values:
            from .replay import replay
            from .replayer import Replayer

            self.replayer = Replayer(program, self.engines)
            kernels.append(replay)
        if announce(*kernels) and self.has_values:
            from .warm import beside

            self.replayer.compiler = beside()

    @property
    def values(self) -> Any:
        """The memories of the tiles, Values; None without."""
        return self.replayer.values if self.has_values else None

    def step(self, token: int, position: int) -> Step:
        """Run one decode step to its end. Raises RuntimeError when the program deadlocks."""
        self._reset(token, position)
        before = self._counts()
        while (status := self.simulate(addresses(self.engines), addresses(self.network))) in (
            c.GROW_PACKETS,
            c.FLUSH_LOG,
        ):
            if status == c.GROW_PACKETS:
                self._grow()
            else:
                self._empty_log()
        if status != c.DONE:
            raise RuntimeError(self._complaint(status))
        self._empty_log()
        if self.recorder:
            self.packets = self.recorder.take()
        if self.has_values:
            self.replayer.finish(self.engines)
        after = self._counts()
        ledger = self.tracer.ledger(self.engines, self.network) if self.trace else None
        return Step(
            position=position, token=token, logits=self._logits(), best=self._best(),
            cycles=int(self.engines.g[c.END_TIME]),
            saturations=after[0] - before[0], overflows=after[1] - before[1],
            ledger=ledger.total if ledger else {},
            stages=ledger.stages if ledger else {},
            network=ledger.network if ledger else {},
            counters=self.counters(),
        )  # fmt: skip

    def _empty_log(self) -> None:
        """Hand the log over to those that read it."""
        if self.recorder:
            self.recorder.keep(self.engines)
        if self.has_values:
            self.engines = self.replayer.hand_over(self.engines)
        self.engines.g[c.LOG_N] = 0

    # --- between steps ---

    def _reset(self, token: int, position: int) -> None:
        e, n, tiles = self.engines, self.network, self.program.tiles
        e.g[:] = 0
        e.calendar[:] = -1
        e.g[c.END_RECORD] = -1
        rows = e.engines.reshape(tiles, 4, c.E_WIDTH)
        rows[:, :, c.BUSY] = 0
        rows[:, :3, c.PC] = self.code.first[self.class_of, :3]
        rows[:, :3, c.PC_END] = self.code.first[self.class_of, 1:]
        self._start(rows[:, :3])
        e.streams[:] = 0
        e.interfaces.reshape(tiles, c.N_WIDTH)[:, c.INJECTED] = 0
        network_tables.reset(n, self.program.arch.vcs)
        registers = e.registers.reshape(tiles, -1)
        for tile, register, value in self.program.step_registers(position, token):
            registers[tile, register] = value

    def _start(self, rows: I64) -> None:
        """All engines with instructions stand before the first at cycle 0; ``rows`` (tiles, 3,
        columns).
        """
        e = self.engines
        work = rows[..., c.PC] < rows[..., c.PC_END]
        rows[..., c.STATE] = np.where(work, c.QUEUED, c.FINISHED)
        rows[..., c.READY_AT] = rows[..., c.FIRST] = 0
        rows[..., c.CAUSE] = rows[..., c.CAUSE_INJECT] = rows[..., c.VIA] = -1
        tile, engine = np.nonzero(work)
        e.ready[: len(tile)] = 4 * tile + engine
        e.g[c.READY_N] = e.g[c.RUNNING] = len(tile)

    def _grow(self) -> None:
        old = len(self.engines.packets) // c.K_WIDTH
        packets = np.concatenate([self.engines.packets, np.zeros_like(self.engines.packets)])
        free = np.zeros(2 * old + 1, np.int64)
        count = int(self.engines.free_packets[0])
        free[1 : 1 + count] = self.engines.free_packets[1 : 1 + count]
        free[1 + count : 1 + count + old] = np.arange(old, 2 * old)
        free[0] = count + old
        self.engines = self.engines._replace(
            packets=packets,
            free_packets=free,
            destinations=np.resize(self.engines.destinations, 2 * old),
        )
        if self.has_values:
            self.replayer.finish(self.engines)
            self.replayer.make_room()

    # --- results ---

    def _counts(self) -> tuple[int, int]:
        """Saturations and overflows so far."""
        if not self.has_values:
            return 0, 0
        saturations, overflows = self.values.counters.sum(axis=0).tolist()
        return saturations, overflows

    def _logits(self) -> NDArray[np.int32] | None:
        if not self.has_values:
            return None
        program = self.program
        logits = np.zeros(program.vocab, np.int32)
        for tile, (first, words) in enumerate(
            zip(program.logit_first, program.logit_words, strict=True)
        ):
            logits[first : first + words] = self.values.vector[
                tile, program.logits_at : program.logits_at + words
            ]
        return logits

    def _best(self) -> int:
        return (
            int(self.values.vector[self.program.result_tile, self.program.result_at + 1])
            if self.has_values
            else 0
        )

    def counters(self) -> dict[str, I64]:
        """Of the last step: beats read (tiles,), busy cycles (tiles, 3), flits over each link
        (links,), flits sent (tiles,).
        """
        tiles, e = self.program.tiles, self.engines
        streams = e.streams.reshape(tiles, c.S_WIDTH)
        ports = self.network.outputs.reshape(-1, c.O_WIDTH)[: e.constants[c.NI_PORT0]]
        return {
            "beats_read": streams[:, c.BEATS_READ].copy(),
            "starved_cycles": streams[:, c.STARVED].copy(),
            "busy_cycles": e.engines.reshape(tiles, 4, c.E_WIDTH)[:, :3, c.BUSY].copy(),
            "link_flits": ports[ports[:, c.O_DOWN] >= 0, c.O_COUNT].astype(np.int64),
            "injected_flits": e.interfaces.reshape(tiles, c.N_WIDTH)[:, c.INJECTED].copy(),
        }

    def _complaint(self, status: int) -> str:
        e = self.engines
        if status == c.TOO_LONG:
            return f"a step of more than {c.LAST_CYCLE} cycles is not supported"
        if status == c.DEADLOCK:
            rows = e.engines.reshape(-1, c.E_WIDTH)
            stuck = [i for i in np.flatnonzero(rows[:, c.STATE] != c.FINISHED) if i & 3 != 3]
            if not stuck:
                return "deadlock in the network"
            index, what = int(stuck[0]), f"deadlock at cycle {e.g[c.NOW]}"
        else:
            index = int(e.g[c.ERROR_ENGINE])
            what = REFUSED[status]
        engine, tile = Engine(index & 3), index >> 2
        at = int(e.engines[index * c.E_WIDTH + c.PC] - self.code.first[self.class_of[tile], engine])
        where = self.program.where(tile, engine, at)
        return f"{what}: {where}" if status == c.DEADLOCK else f"{where} {what}"


def run(
    program: Program,
    prompt: list[int],
    tokens: int,
    values: bool = True,
    on_step: Callable[[Step], None] | None = None,
) -> Run:
    """Feed ``prompt``, then generate ``tokens`` greedy tokens: a Step for each token fed.

    Without values there are no tokens to feed: all are 0.
    """
    machine = FastMachine(program, values)
    fed = list(prompt) if machine.has_values else [0] * len(prompt)
    result = Run(executor="fast", arch_fingerprint=program.arch.fingerprint, prompt=fed)
    return drive(machine, result, tokens, on_step=on_step)
