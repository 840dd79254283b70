"""The shape of the package: what may import what, and what ships."""

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import nrs

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "nrs"
# Data walks one way: a package imports only from those before it.
ROAD = [
    "_util", "engine", "core", "datasets", "training", "tabular", "ranking", "files", "vision",
    "points", "baselines", "pages", "paper", "mlflow", "autogluon", "serve",
    "cli",
]  # fmt: skip


# What a reader of a fit meets, and places without a type; to fall, never to rise.
MAX_FILES, MAX_HOPS, MAX_ANY = 26, 70, 139


def _imports(path):
    """Modules of nrs that a file imports, wherever in the file it does so."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _stations():
    """Packages, and modules that are stations of their own."""
    packages = [p.name for p in SOURCE.iterdir() if p.is_dir() and list(p.rglob("*.py"))]
    return sorted({*packages, *(name for name in ROAD if (SOURCE / f"{name}.py").exists())})


def _files(station):
    module = SOURCE / f"{station}.py"
    return [module] if module.exists() else list((SOURCE / station).rglob("*.py"))


@pytest.mark.parametrize("station", _stations())
def test_a_package_imports_only_from_those_before_it(station):
    allowed = set(ROAD[: ROAD.index(station) + 1]) | {"_version"}
    for path in _files(station):
        for module in _imports(path):
            parts = module.split(".")
            if parts[0] == "nrs" and len(parts) > 1:
                assert parts[1] in allowed, f"{path.name} of {station} imports {module}"


def test_no_module_reaches_others_through_the_package_itself():
    # `import nrs` reaches every package, whichever way the road goes.
    found = {
        str(path.relative_to(SOURCE))
        for station in ROAD
        if station != "cli"
        for path in _files(station)
        if "nrs" in _imports(path)
    }
    assert not found


def _runtime_imports(tree):
    """Modules that are imported when the code runs, not only for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        yield from _runtime_imports(node)


def test_no_lazy_import_hides_a_cycle():
    graph = {}
    for path in (SOURCE / "tabular").rglob("*.py"):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        graph[name] = set(_runtime_imports(ast.parse(path.read_text(encoding="utf-8"))))
    # A package's own __init__ gathers what its modules define.
    graph = {name: found & graph.keys() - {"nrs.tabular"} for name, found in graph.items()}
    done = set()

    def visit(name, way):
        assert name not in way, " -> ".join([*way[way.index(name) :], name])
        if name not in done:
            for other in graph[name] - {name}:
                visit(other, [*way, name])
            done.add(name)

    for name in graph:
        visit(name, [])


def test_every_module_of_tables_has_its_mirror_among_the_tests():
    modules = (path.relative_to(SOURCE) for path in (SOURCE / "tabular").rglob("*.py"))
    without = {
        path.as_posix()
        for path in modules
        if path.name not in ("__init__.py", "types.py")
        and not (ROOT / "tests" / path.parent / f"test_{path.name}").exists()
    }
    assert not without


def _own_names(tree):
    """Private names that a module defines: functions, attributes of self, fields."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self", "cls"):
            yield node.attr
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


# Of torch, the standard library and named tuples.
FOREIGN = {
    "_exit", "_replace", "_foreach_lerp_", "_foreach_copy_", "_version",
    # What torch knows of a call and has no public name for: only asked, never written.
    "_C", "_are_functorch_transforms_active", "_current_level", "_functorch",
    "_len_torch_dispatch_stack",
    "_has_any_global_hook", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
    "_backward_pre_hooks",
}  # fmt: skip


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.name)
def test_no_module_reaches_into_another_objects_private_state(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    own = set(_own_names(tree)) | FOREIGN
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not re.fullmatch(r"_[^_].*", node.attr):
            continue
        owner = ast.unparse(node.value)
        if owner.startswith("torch.ops") or owner in ("self", "cls", "super()"):
            continue
        assert node.attr in own, f"{path.name}:{node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("name", ["NRSClassifier", "NRSRegressor", "NRSRanker"])
def test_no_method_is_defined_in_more_than_two_classes(name):
    found = {}
    for kind in getattr(nrs, name).__mro__:
        if kind.__module__.startswith("nrs"):
            for method, value in vars(kind).items():
                # Constructors are made of the fields.
                if callable(getattr(value, "__func__", value)) and method != "__init__":
                    found.setdefault(method, []).append(kind.__name__)
    assert not {method: kinds for method, kinds in found.items() if len(kinds) > 2}


def test_a_fit_is_a_short_walk(tmp_path):
    from benchmarks.hops import fits, trace

    walks = []
    for name in ("fit of a frame", "fit of nrs.Table"):
        run, root = fits(tmp_path)[name]
        functions, hops = trace(run, root)
        walks.append((len({code.co_filename for code in functions}), len(hops)))
    (files, hops), (files_of_stream, _) = walks
    assert files <= MAX_FILES
    assert hops <= MAX_HOPS
    assert files_of_stream <= files + 10


def test_types_say_what_comes():
    source = "\n".join(path.read_text() for path in (SOURCE / "tabular").rglob("*.py"))
    assert len(re.findall(r"\bAny\b", source)) <= MAX_ANY


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.name)
def test_the_library_never_prints_or_unpickles(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            assert name not in ("eval", "exec", "pickle.load", "pickle.loads"), path
            # The restricted unpickler makes tensors and plain containers only.
            restricted = [one.arg for one in node.keywords if ast.unparse(one.value) == "True"]
            assert name != "torch.load" or "weights_only" in restricted, path
            if "cli" not in path.parts:
                assert name != "print", path


def test_the_public_names_are_there():
    for name in nrs.__all__:
        assert getattr(nrs, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Forest'"):
        nrs.Forest  # noqa: B018


def test_the_layer_needs_no_scikit_learn():
    code = "import sys, nrs; nrs.NRS(4); assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def _blocks(path):
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


# Of engines.md each section is run where its tool is: make test-integrations.
DOCUMENTS = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if path.name != "engines.md"
]


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_every_python_block_of_the_documents_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in _blocks(path):
        exec(compile(block, str(path), "exec"), names)


@pytest.mark.slow
def test_the_wheel_works_outside_the_source_tree(tmp_path):
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("neural_random_subspace-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert "nrs/py.typed" in names
        assert any(name.endswith("LICENSE") for name in names)
        assert not [name for name in names if name.startswith("tests")]
        archive.extractall(tmp_path / "installed")
    code = (
        "import nrs, numpy as np; from pathlib import Path\n"
        "assert Path(nrs.__file__).is_relative_to(Path('installed').resolve()), nrs.__file__\n"
        "X = np.random.default_rng(0).normal(size=(60, 4)); y = (X[:, 0] > 0).astype(int)\n"
        "model = nrs.NRSClassifier(epochs=3, random_state=0).fit(X, y)\n"
        "model.save('m.safetensors')\n"
        "assert (nrs.NRSClassifier.load('m.safetensors').predict(X) == model.predict(X)).all()\n"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "installed"), "PATH": ""},
    )
