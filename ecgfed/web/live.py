"""The live page: one HTML file that classifies a recording or a stream in a browser, without a network.

``python -m ecgfed.web.live OUT.html`` embeds the JavaScript runtime, ONNX Runtime for browsers from a local npm
package, and a bundle, by default the packaged model.
"""

import argparse
import base64
import gzip
import re
import sys
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from ecgfed.base.errors import BundleError, EcgfedError, OptionError
from ecgfed.base.files import check_free, write_together
from ecgfed.base.safe_io import read_bounded
from ecgfed.base.text import shortened
from ecgfed.web.modules import bundled
from ecgfed.web.page import asset, escaped, inline_page

#: The npm package that runs ONNX graphs in a browser, and its embedded files.
PACKAGE, SCRIPT, WASM = "onnxruntime-web", "dist/ort.wasm.bundle.min.mjs", "dist/ort-wasm-simd-threaded.wasm"
#: Size limits of each of those files, and of each embedded file of a bundle, bytes.
_MAX_RUNTIME_BYTES, _MAX_FILE_BYTES = 64 << 20, 32 << 20
USE = "Research use only, not for diagnosis; every result needs a physician's over-read."
_EXPORTS = re.compile(r"export\s*\{([^{}]*)\};?\s*(?://# sourceMappingURL=\S*\s*)?$")
_STYLES = ("paper.css", "report.css", "live.css")


def onnx_runtime(folder: Path) -> tuple[str, bytes]:
    """Return ONNX Runtime's browser script, which defines the constant ``ort``, and its WebAssembly.

    Args:
        folder: the npm package ``onnxruntime-web``.

    Raises:
        OptionError: the package is missing or has an unknown layout.
    """
    missing = [name for name in (SCRIPT, WASM) if not (folder / name).is_file()]
    if missing:
        reason = f"{folder} holds no {missing[0]}"
        raise OptionError("ort", reason, f"the npm package {PACKAGE}", f"npm install {PACKAGE}")
    text = read_bounded(folder / SCRIPT, _MAX_RUNTIME_BYTES, OptionError).decode("utf-8")
    match = _EXPORTS.search(text)
    if match is None:
        reason = f"{folder / SCRIPT} does not end with a list of exports"
        raise OptionError("ort", reason, f"a supported version of {PACKAGE}")
    pairs = [re.split(r"\s+as\s+", entry.strip()) for entry in match[1].split(",")]
    exports = ", ".join(f"{pair[-1]}: {pair[0]}" for pair in pairs if pair[-1] != "default")
    script = f"const ort = (() => {{\n{text[: match.start()]}\nreturn {{ {exports} }};\n}})();\n"
    return script, read_bounded(folder / WASM, _MAX_RUNTIME_BYTES, OptionError)


def bundle_files(folder: Path) -> dict[str, bytes]:
    """Return the files of a bundle's folder, by path; the page verifies them when it opens.

    Raises:
        BundleError: the folder is not a bundle, or a file exceeds the size limit.
    """
    if not (folder / "manifest.json").is_file():
        raise BundleError(folder, "holds no manifest.json", "a bundle's folder", "create one with 'ecgfed export'")
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    selected = [path for path in files if path.suffix in (".json", ".onnx", ".safetensors", ".sig", ".pem", ".md")]
    return {path.relative_to(folder).as_posix(): read_bounded(path, _MAX_FILE_BYTES, BundleError) for path in selected}


def live_page(ort: tuple[str, bytes], bundle: dict[str, bytes] | None, name: str) -> str:
    """Return the page as one HTML document.

    Args:
        ort: script and WebAssembly, from ``onnx_runtime``.
        bundle: files by path, or None for a page that asks for a bundle.
        name: the bundle's displayed name.
    """
    script, wasm = ort
    packed = None if bundle is None else {path: base64.b64encode(data).decode() for path, data in bundle.items()}
    data = {
        "wasm": base64.b64encode(gzip.compress(wasm, 9, mtime=0)).decode(),
        "bundle": packed,
        "bundle_name": shortened(name, 60),
    }
    start = 'page.start(ort, JSON.parse(document.getElementById("page-data").textContent));\n'
    code = f"{script}{bundled('live/main.js', 'page')}{start}"
    body = asset("live.html").replace("{use}", escaped(USE))
    return inline_page("Beats, live", body, styles=_STYLES, scripts=("language.js", "paper.js"), data=data, module=code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ecgfed.web.live", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT.html", help="the file to write")
    parser.add_argument("--bundle", type=Path, help="a bundle's folder to embed; default the packaged model")
    parser.add_argument("--no-bundle", action="store_true", help="embed no bundle: the page asks for one")
    parser.add_argument("--ort", type=Path, default=Path("node_modules") / PACKAGE, help=f"the npm package {PACKAGE}")
    parser.add_argument("--overwrite", action="store_true", help="replace the file")
    args = parser.parse_args(arguments)
    try:
        folder = args.bundle or Path(str(files("ecgfed"))) / "exports" / "model"
        bundle = None if args.no_bundle else bundle_files(folder)
        html = live_page(onnx_runtime(args.ort), bundle, args.bundle.resolve().name if args.bundle else "ecgfed/model")
        check_free([args.out], [], overwrite=args.overwrite)
        write_together({args.out: html.encode("utf-8")})
    except EcgfedError as problem:
        print(f"ecgfed: {problem.line}", file=sys.stderr)
        return 2
    print(f"{args.out}: {len(html) / 1e6:.1f} MB, opens by double-click; {USE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
