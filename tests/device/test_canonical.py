"""Digest over canonical JSON: refused values, and the same digest as JavaScript where Node is installed."""

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import exported

from ecgfed.exports.device.canonical import digest_of

#: The page's own lines for JavaScript.
PAGE = (Path(__file__).parent.parent.parent / "docs" / "bundle.md").read_text()
(SCRIPT,) = re.findall(r"^```js\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
KEYS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(KEYS, inside, max_size=4),
    max_leaves=30,
)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**53, -(2**60), "\ud800", {"\udc00": 1}])
def test_what_other_languages_read_otherwise_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        digest_of({"value": value}, "digest")


def test_digest_leaves_its_own_field_out_and_nothing_else() -> None:
    by_hand = hashlib.sha256(b'{"a":{"digest":1},"b":[1,2.5]}').hexdigest()
    assert digest_of({"b": [1.0, 2.5], "digest": "x", "a": {"digest": 1}}, "digest") == by_hand


needs_node = pytest.mark.skipif(not shutil.which("node"), reason="Node is not installed")


@needs_node
@settings(max_examples=5, deadline=None)  # each starts Node
@given(st.lists(VALUES, min_size=20, max_size=60))
def test_javascript_makes_the_same_digest(value: list[Any]) -> None:
    document = {"digest": "x", "10": 1, "9": 2, "value": value}
    assert _by_javascript(json.dumps(document)) == digest_of(document, "digest")


@needs_node
def test_javascript_checks_a_bundles_digest(fedavg_run: Path) -> None:
    text = (exported(fedavg_run) / "manifest.json").read_text()
    assert _by_javascript(text) == json.loads(text)["digest"]


def _by_javascript(text: str) -> str:
    """Run what docs/bundle.md gives to readers."""
    script = f'const text = require("fs").readFileSync(0, "utf8");\n{SCRIPT}\nprocess.stdout.write(computed);'
    done = subprocess.run(["node", "-e", script], input=text.encode(), capture_output=True, check=True)
    return done.stdout.decode()
