"""Switch allocation: which flits leave a router in a cycle, as a pure rule.

The first flit of each input virtual channel (VC) asks for at most one output. An allocator picks a
set of them, at most one an input and one an output; hardware and fast simulator are held to it.
"""

from collections.abc import Iterable

Request = tuple[int, int, int]
"""(input port, VC, output port)."""


class Arbiter:
    """Picks the first of its requests in an order that changes when one is served.

    ``round_robin``: cyclic, from the one behind the one served last on. ``matrix``: the one served
    least recently first. At first both are in the order of numbers.
    """

    def __init__(self, count: int, kind: str) -> None:
        self.kind, self.order = kind, list(range(count))

    def pick(self, requests: Iterable[int]) -> int:
        """The first of ``requests``, of which there is at least one."""
        return min(requests, key=self.order.index)

    def serve(self, number: int) -> None:
        """``number`` was served: it is last from now on."""
        at = self.order.index(number)
        if self.kind == "round_robin":
            self.order = self.order[at + 1 :] + self.order[: at + 1]
        else:
            self.order = [*self.order[:at], *self.order[at + 1 :], number]


class Allocator:
    """Matches inputs and outputs of a router of ``ports`` and ``vcs``, a cycle at a time.

    ``input_first``: each input picks one of its VCs, then each output one of the inputs that picked
    it; the arbiters of a match move. ``output_first``: each output picks one of the inputs that ask
    for it, then each input one of the outputs that picked it; what is unmatched goes on in the
    next of ``iterations``, but only matches of the first move the arbiters of outputs and inputs
    (iSLIP, McKeown 1999). ``wavefront``: matches along the diagonals input + output = d (modulo
    ports) from a first one on, which moves by one in each cycle with a match (Tamir and Chi 1993).
    Behind the latter two each input picks one of its VCs that ask for its output, and its arbiter
    of VCs moves.
    """

    def __init__(
        self, *, ports: int, vcs: int, kind: str, iterations: int = 1, arbiter: str = "round_robin"
    ) -> None:
        self.ports, self.kind, self.iterations = ports, kind, iterations
        self.channels = [Arbiter(vcs, arbiter) for _ in range(ports)]
        self.inputs = [Arbiter(ports, arbiter) for _ in range(ports)]
        self.outputs = [Arbiter(ports, arbiter) for _ in range(ports)]
        self.diagonal = 0

    def cycle(self, requests: Iterable[Request]) -> list[Request]:
        """Those of the requests that are granted, by input."""
        wanted: dict[tuple[int, int], list[int]] = {}
        for source, vc, output in sorted(requests):
            wanted.setdefault((source, output), []).append(vc)
        if self.kind == "input_first":
            return self._input_first(wanted)
        match = self._output_first if self.kind == "output_first" else self._wavefront
        granted = []
        for source, output in sorted(match(set(wanted))):
            vc = self.channels[source].pick(wanted[source, output])
            self.channels[source].serve(vc)
            granted.append((source, vc, output))
        return granted

    def _input_first(self, wanted: dict[tuple[int, int], list[int]]) -> list[Request]:
        asking: dict[int, dict[int, int]] = {}  # per output: input -> VC
        for source in {source for source, _ in wanted}:
            outputs = {vc: o for (i, o), vcs in wanted.items() if i == source for vc in vcs}
            vc = self.channels[source].pick(outputs)
            asking.setdefault(outputs[vc], {})[source] = vc
        granted = []
        for output, inputs in asking.items():
            source = self.outputs[output].pick(inputs)
            self.outputs[output].serve(source)
            self.channels[source].serve(inputs[source])
            granted.append((source, inputs[source], output))
        return sorted(granted)

    def _output_first(self, pairs: set[tuple[int, int]]) -> list[tuple[int, int]]:
        matched: list[tuple[int, int]] = []
        for iteration in range(self.iterations):
            offers: dict[int, list[int]] = {}
            for output in {o for _, o in pairs}:
                source = self.outputs[output].pick(i for i, o in pairs if o == output)
                offers.setdefault(source, []).append(output)
            for source, outputs in offers.items():
                output = self.inputs[source].pick(outputs)
                matched.append((source, output))
                if iteration == 0:
                    self.inputs[source].serve(output)
                    self.outputs[output].serve(source)
            pairs = {(i, o) for i, o in pairs if all(i != j and o != p for j, p in matched)}
        return matched

    def _wavefront(self, pairs: set[tuple[int, int]]) -> list[tuple[int, int]]:
        matched: list[tuple[int, int]] = []
        for d in range(self.ports):
            for source in range(self.ports):
                pair = source, (self.diagonal + d - source) % self.ports
                if pair in pairs and all(pair[0] != i and pair[1] != o for i, o in matched):
                    matched.append(pair)
        self.diagonal = (self.diagonal + bool(matched)) % self.ports
        return matched
