"""The compiled modules: the list of them, what mypyc's language forbids them, and that edited sources are what runs."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import native
from native import build
from native.build import is_current
from native.modules import MODULES
from tests.harness.broker import BrokerProcess

ROOT = Path(native.ROOT)


def functions(module: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(Path(native.source_of(module)).read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_the_list_names_modules_that_exist_each_once_and_in_order() -> None:
    assert [module for module in MODULES if not os.path.exists(native.source_of(module))] == []
    assert list(MODULES) == sorted(set(MODULES))


@pytest.mark.parametrize("module", MODULES)
def test_no_function_of_a_compiled_module_catches_two_types_under_one_name(module: str) -> None:
    """mypyc gives a name the type of the first of them, and refuses what the second one catches when it happens."""
    for function in functions(module):
        caught: dict[str, str] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.ExceptHandler) and node.name and node.type:
                kind = ast.unparse(node.type)
                assert caught.setdefault(node.name, kind) == kind, f"{module}.{function.name}: {node.name}"


def test_what_is_left_to_the_compiled_run_loads_no_compiled_module() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^SAME_IN_BOTH_FORMS := (.+)$", makefile, re.MULTILINE)
    modules = [path.removesuffix(".py").replace("/", ".") for path in listed.split()]
    loading = f"import sys, {', '.join(modules)}, native.modules; print(*sys.modules.keys() & native.modules.MODULES)"
    assert modules and run(ROOT, loading, **{native.PURE_VARIABLE: "1"}) == [""]


# --- which form runs ---


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Give a copy of the packages with what lies compiled beside them."""
    if not is_current():
        pytest.skip("nothing current is compiled here: make compile")
    for package in ("broker", "config", "native", "protocol", "storage"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def run(checkout: Path, code: str, **environment: str) -> list[str]:
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", native.PURE_VARIABLE)}
    command = [sys.executable, "-P", "-c", code]
    environment = {**inherited, "PYTHONPATH": str(checkout), **environment}
    done = subprocess.run(command, env=environment, cwd=checkout, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


LOOK = """
import sys
import storage, native
from native.modules import MODULES
from importlib import import_module
suffixes = {import_module(module).__file__.rpartition(".")[2] for module in MODULES}
print(native.form())
print(*suffixes)
"""


def test_compiled_modules_run_when_they_are_made_of_the_sources(checkout: Path) -> None:
    assert run(checkout, LOOK) == ["compiled", "so"]


@pytest.mark.parametrize("module", [MODULES[0], MODULES[-1]])
def test_an_edited_source_runs_at_once_and_with_it_all_the_others(checkout: Path, module: str) -> None:
    source = checkout / (module.replace(".", "/") + ".py")
    source.write_text(source.read_text() + "\nEDITED = True\n")
    assert run(checkout, LOOK) == ["pure", "py"]
    source.unlink()
    assert run(checkout, "import protocol, native; print(native.form())") == ["pure"]


def test_machine_code_of_another_interpreter_is_not_touched(checkout: Path) -> None:
    stamp = checkout / "native/built/stamp"
    stamp.write_text("3" + stamp.read_text())
    assert run(checkout, LOOK) == ["pure", "py"]


def test_a_stamp_that_is_no_text_leaves_the_sources(checkout: Path) -> None:
    (checkout / "native/built/stamp").write_bytes(b"\xff\xfe")
    assert run(checkout, LOOK) == ["pure", "py"]
    assert run(checkout, "from native import build; print(build.is_current())") == ["False"]


def test_machine_code_that_cannot_be_loaded_leaves_the_sources(checkout: Path) -> None:
    (library,) = (checkout / "native/built").glob(f"{native.LIBRARY}*")
    library.write_bytes(b"not for this machine")
    assert run(checkout, LOOK) == ["pure", "py"]


def test_the_environment_chooses_the_sources(checkout: Path) -> None:
    assert run(checkout, LOOK, **{native.PURE_VARIABLE: "1"}) == ["pure", "py"]
    assert run(checkout, LOOK, **{native.PURE_VARIABLE: "0"}) == ["compiled", "so"]


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [({}, "there is no C compiler"), ({"CC": "none"}, "CC is none, and there is no such command")],
)
def test_without_a_compiler_one_line_says_so_and_nothing_stale_stays(
    checkout: Path, chosen: dict[str, str], reason: str
) -> None:
    source = checkout / (MODULES[0].replace(".", "/") + ".py")
    source.write_text(source.read_text() + "\nEDITED = True\n")
    command = [sys.executable, "-P", "-m", "native.build"]
    inherited = {name: value for name, value in os.environ.items() if name != "CC"}
    environment = {**inherited, "PYTHONPATH": str(checkout), "PATH": str(checkout), **chosen}
    done = subprocess.run(command, env=environment, cwd=checkout, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"odradek: not compiled, since {reason}\n"
    assert not (checkout / "native/built").exists()


def test_object_files_of_one_interpreter_are_not_linked_for_another() -> None:
    assert f".{build.WORK.name}" == native.SUFFIX


def test_a_compiler_that_ends_half_way_leaves_nothing_that_looks_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "part.c"
    source.touch()

    def stop_half_way(command: Iterable[str]) -> None:
        Path([*command][-1]).write_bytes(b"half of it")
        raise build.CannotCompile("killed")

    monkeypatch.setattr(build, "_run", stop_half_way)
    with pytest.raises(build.CannotCompile):
        build._compile(["cc"], str(source), SimpleNamespace(include_dirs=[]), newest_header=0)
    assert not source.with_suffix(".o").exists()


def test_what_is_current_is_not_compiled_again(checkout: Path) -> None:
    before = (checkout / "native/built/stamp").stat().st_mtime_ns
    command = [sys.executable, "-P", "-m", "native.build"]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PATH": str(checkout), "CC": "none"}
    subprocess.run(command, env=environment, cwd=checkout, check=True)
    assert (checkout / "native/built/stamp").stat().st_mtime_ns == before


def test_the_broker_says_at_its_start_how_it_runs(shared_broker: BrokerProcess, is_reference: bool) -> None:
    if is_reference:
        pytest.skip("Apache Kafka has one form")
    (line,) = [line for line in shared_broker.log_text().splitlines() if "Kafka Server started" in line]
    assert f" form={native.form()} " in line


@pytest.mark.skipif(not os.environ.get("CI"), reason="only CI insists on a compiler")
def test_all_that_is_not_tested_as_sources_is_tested_compiled() -> None:
    assert native.is_compiled() or os.environ.get(native.PURE_VARIABLE) == "1", native.description()
