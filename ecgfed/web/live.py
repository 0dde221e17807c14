"""The live page: one HTML file that opens a bundle and a recording, or a stream, in a browser, without any network.

``python -m ecgfed.web.live OUT.html`` builds in the JavaScript runtime, ONNX Runtime for browsers from a local npm
package, and a bundle: the model in the package unless another is named.
"""

import argparse
import base64
import gzip
import re
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from ecgfed.errors import BundleError, EcgfedError, OptionError
from ecgfed.files import check_free, write_together
from ecgfed.gate import read_bounded
from ecgfed.text import shortened
from ecgfed.web.modules import bundled
from ecgfed.web.page import asset, escaped, inline_page

#: The npm package that runs graphs in a browser, and its parts that are built in.
PACKAGE, SCRIPT, WASM = "onnxruntime-web", "dist/ort.wasm.bundle.min.mjs", "dist/ort-wasm-simd-threaded.wasm"
#: Most bytes of each of those, and of a bundle's file that is built in.
_MOST_RUNTIME, _MOST_FILE = 64 << 20, 32 << 20
USE = "Research use only, not for diagnosis; every result needs a physician's over-read."
_EXPORTS = re.compile(r"export\s*\{([^{}]*)\};?\s*(?://# sourceMappingURL=\S*\s*)?$")
_STYLES = ("paper.css", "report.css", "live.css")


def onnx_runtime(folder: Path) -> tuple[str, bytes]:
    """Return ONNX Runtime's script for browsers, as a constant ``ort``, and its WebAssembly.

    Args:
        folder: the npm package ``onnxruntime-web``.

    Raises:
        OptionError: it is not there, or of another form.
    """
    missing = [name for name in (SCRIPT, WASM) if not (folder / name).is_file()]
    if missing:
        raise OptionError(
            "--ort", f"{folder} holds no {missing[0]}", f"the npm package {PACKAGE}", f"npm install {PACKAGE}"
        )
    text = read_bounded(folder / SCRIPT, _MOST_RUNTIME, OptionError).decode("utf-8")
    found = _EXPORTS.search(text)
    if found is None:
        raise OptionError(
            "--ort", f"{folder / SCRIPT} ends in no list of exports", f"a version of {PACKAGE} that is known"
        )
    pairs = [re.split(r"\s+as\s+", one.strip()) for one in found[1].split(",")]
    given = ", ".join(f"{pair[-1]}: {pair[0]}" for pair in pairs if pair[-1] != "default")
    return f"const ort = (() => {{\n{text[: found.start()]}\nreturn {{ {given} }};\n}})();\n", read_bounded(
        folder / WASM, _MOST_RUNTIME, OptionError
    )


def bundle_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a bundle's folder that its manifest stands beside; the page checks them when it opens.

    Raises:
        BundleError: no bundle, or a file that is longer than any that is built in.
    """
    if not (folder / "manifest.json").is_file():
        raise BundleError(folder, "holds no manifest.json", "a bundle's folder", "make one with 'ecgfed export'")
    found = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    wanted = [path for path in found if path.suffix in (".json", ".onnx", ".safetensors", ".sig", ".pem", ".md")]
    return {path.relative_to(folder).as_posix(): read_bounded(path, _MOST_FILE, BundleError) for path in wanted}


def live_page(ort: tuple[str, bytes], bundle: dict[str, bytes] | None, name: str) -> str:
    """Return the page as one HTML document.

    Args:
        ort: script and WebAssembly, from ``onnx_runtime``.
        bundle: files by name, or None for a page that waits for a bundle.
        name: what to call it.
    """
    script, wasm = ort
    packed = None if bundle is None else {path: base64.b64encode(data).decode() for path, data in bundle.items()}
    data = {
        "wasm": base64.b64encode(gzip.compress(wasm, 9, mtime=0)).decode(),
        "bundle": packed,
        "bundle_name": shortened(name, 60),
    }
    code = f"{script}{bundled('live/main.js', 'page')}" + (
        'page.start(ort, JSON.parse(document.getElementById("page-data").textContent));\n'
    )
    body = asset("live.html").replace("{use}", escaped(USE))
    return inline_page("Beats, live", body, styles=_STYLES, scripts=("paper.js",), data=data, module=code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ecgfed.web.live", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT.html", help="the file to write")
    parser.add_argument("--bundle", type=Path, help="a bundle's folder to build in; default the model in the package")
    parser.add_argument("--no-bundle", action="store_true", help="build none in: the page waits for one")
    parser.add_argument("--ort", type=Path, default=Path("node_modules") / PACKAGE, help=f"the npm package {PACKAGE}")
    parser.add_argument("--overwrite", action="store_true", help="replace the file")
    asked = parser.parse_args(arguments)
    try:
        folder = asked.bundle or Path(str(files("ecgfed"))) / "model"
        bundle = None if asked.no_bundle else bundle_files(folder)
        html = live_page(
            onnx_runtime(asked.ort), bundle, asked.bundle.resolve().name if asked.bundle else "ecgfed/model"
        )
        check_free([asked.out], [], overwrite=asked.overwrite)
        write_together({asked.out: html.encode("utf-8")})
    except EcgfedError as problem:
        print(f"ecgfed: {problem.line}", file=sys.stderr)
        return 2
    print(f"{asked.out}: {len(html) / 1e6:.1f} MB, opens by double-click; {USE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
