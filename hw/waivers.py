"""Warnings of ``verilator --lint-only -Wall`` that the Verilog has on purpose, each with why."""

from typing import NamedTuple


class Waiver(NamedTuple):
    """A rule of Verilator, the messages that it is waived for, and the reason."""

    rule: str
    match: str  # of the whole message, with * and ?; "" for all
    reason: str


WAIVERS = (
    Waiver("DECLFILENAME", "", "a unit's modules are in one file, named after its top module"),
    Waiver(
        "PROCASSINIT", "",
        "Yosys writes a register's reset value at its declaration, too, as FPGAs take it",
    ),
    Waiver(
        "CASEINCOMPLETE", "",
        "Yosys assigns a signal's default in front of each case, so that nothing is latched",
    ),
    Waiver(
        "WIDTHEXPAND", "",
        "Amaranth widens results so that no carry is lost, and leaves the operands as they are",
    ),
    Waiver(
        "WIDTHTRUNC", "*Logical operator LOGNOT expects 1 bit*",
        "Yosys writes == 0 as !",
    ),
    Waiver(
        "WIDTHTRUNC", "*Assign RHS's SHIFTR generates*",
        "a part selected by a variable index is a shift, of which the lowest bits are taken",
    ),
    Waiver(
        "UNUSEDSIGNAL", "",
        "every field of a layout and every signal at the border of a submodule has a name of its "
        "own for waveforms; unused inputs are tested apart (tests/hw/test_waivers.py)",
    ),
    Waiver(
        "VARHIDDEN", "*'semaphore'*", "a port of that name; Verilator's own std package has a class"
    ),
)  # fmt: skip


def waiver_file() -> str:
    """Text of a Verilator control file (``.vlt``) with all waivers."""
    lines = ["`verilator_config"]
    for waiver in WAIVERS:
        match = f' -match "{waiver.match}"' if waiver.match else ""
        lines += [f"// {waiver.reason}", f'lint_off -rule {waiver.rule} -file "*"{match}']
    return "\n".join(lines) + "\n"
