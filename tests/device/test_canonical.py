"""Canonical JSON: against the RFC's own numbers and example, and against JavaScript where Node is here."""

import hashlib
import json
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import exported

from ecgfed.exports.device.canonical import canonical, digest_of

#: RFC 8785, appendix B: IEEE 754 bits -> what ECMAScript writes.
NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}
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


@pytest.mark.parametrize(("bits", "text"), NUMBERS.items())
def test_numbers_of_the_rfc(bits: str, text: str) -> None:
    (value,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical(value) == text


def test_the_rfcs_example() -> None:
    """RFC 8785, section 3.2.2 and 3.2.3: keys by UTF-16 units, numbers and escapes."""
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": '€$\u000f\nA\'B"\\\\"/',
        "literals": [None, True, False],
    }
    assert canonical(value) == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    ordered = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    assert list(json.loads(canonical(dict.fromkeys(keys, 0)))) == ordered


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**53, -(2**60), "\ud800", {"\udc00": 1}])
def test_what_other_languages_read_otherwise_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        canonical([value])


@given(VALUES)
def test_canonical_json_says_the_same(value: Any) -> None:
    text = canonical(value)
    again = json.loads(text, parse_int=float)  # as JavaScript reads: a large float is written as whole digits
    assert again == value
    assert canonical(again) == text


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
    script = f'const text = require("fs").readFileSync(0, "utf8");\n{SCRIPT}\nprocess.stdout.write(found);'
    done = subprocess.run(["node", "-e", script], input=text.encode(), capture_output=True, check=True)
    return done.stdout.decode()
