"""The tests mirror the rooms by name, so that a module's test is found without a search.

``tests/hw/arch/test_topology.py`` tests ``hw/arch/topology.py``, as does
``test_topology_WORDS.py``; ``tests/sim/test_fast.py`` may
test the package ``sim/fast`` and each module in it. Whole programs (``tests/cosim``) and checks of
the repository itself (``tests/*.py``) mirror nothing.
"""

from pathlib import Path, PurePath

ROOT = Path(__file__).parents[1]
ROOMS = ["hw", "sim", "sw", "tokenpath"]

# Modules that may go without a test of their own, each with its reason.
WITHOUT_A_TEST = {
    "hw/arch/errors.py": "one exception class",
    "hw/arch/access.py": "tests/hw/arch/test_static.py and test_races.py read every access",
    "hw/clock.py": "one constant for the testbenches",
    "hw/credits.py": "tests/hw/test_router.py and test_injector.py count credits",
    "hw/flit.py": "layouts, read by tests/hw/test_injector.py and test_sink.py",
    "hw/route.py": "tests/hw/test_router.py compares routes with the topology",
    "hw/vc_input.py": "tests/hw/test_vc_router.py compares whole routers with the rules",
    "hw/vc_output.py": "tests/hw/test_vc_router.py compares whole routers with the rules",
    "hw/vc_route.py": "tests/hw/test_vc_router.py compares whole routers with the rules",
    "sw/ends.py": "tests/sw/test_lower.py runs whole steps",
    "sw/hidden.py": "tests/sw/test_lower.py runs whole steps",
    "sw/step.py": "tests/sw/test_lower.py runs whole steps",
    "tokenpath/pipeline.py": "tests/tokenpath/test_commands.py runs it through the commands",
    "tokenpath/__main__.py": "tests/tokenpath/test_cli.py runs it as a process",
}


def modules() -> set[str]:
    """Every module of the rooms but the packages' own __init__.py; rglob follows no links."""
    return {
        file.relative_to(ROOT).as_posix()
        for room in ROOMS
        for file in (ROOT / room).rglob("*.py")
        if file.name != "__init__.py"
    }


def mirrored() -> set[str]:
    """Every test of a room, named as the module or package that it mirrors, without suffix."""
    return {
        file.relative_to(ROOT / "tests").with_name(file.stem.removeprefix("test_")).as_posix()
        for room in ROOMS
        for file in (ROOT / "tests" / room).rglob("test_*.py")
    }


def test_each_test_mirrors_a_module_or_a_package():
    there = {module.removesuffix(".py") for module in modules()}
    packages = {PurePath(module).parent.as_posix() for module in modules()}
    named = there | packages
    lost = sorted(
        test
        for test in mirrored() - named
        if not any(test.startswith(f"{module}_") for module in there)
    )
    assert not lost, f"no module or package for the tests of {lost}"


def test_each_module_has_a_test_or_a_reason():
    tested = {
        module
        for module in modules()
        if {module.removesuffix(".py"), PurePath(module).parent.as_posix()} & mirrored()
    }
    missing = sorted(modules() - tested - WITHOUT_A_TEST.keys())
    assert not missing, f"no test for {missing}"
    stale = sorted(WITHOUT_A_TEST.keys() - (modules() - tested))
    assert not stale, f"tested or gone, so no longer excused: {stale}"
