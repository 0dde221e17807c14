"""Scripts that are in no package (benchmarks, a page's pictures), loaded by their path."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

BENCHMARKS = Path(__file__).resolve().parent
ROOT = BENCHMARKS.parent


def load_script(file: Path) -> ModuleType:
    """Load a script anew, as a module of its own; it finds what lies beside it and in ``benchmarks``, as when it runs.

    What it has put on the path, and the modules that it has loaded from there, leave again: folders have modules of the
    same name.
    """
    name = "_".join(file.relative_to(ROOT).with_suffix("").parts)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    path, modules = sys.path.copy(), set(sys.modules)
    sys.path[:0] = [str(file.parent), str(BENCHMARKS)]
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = path
        for one in set(sys.modules) - modules:
            if str(getattr(sys.modules[one], "__file__", "")).startswith((f"{BENCHMARKS}/", f"{file.parent}/")):
                del sys.modules[one]
    return module
