"""What kind of recording a file is: by what it holds, and only then by what it is called.

PhysioNet has EDF files called ``.rec``, and hospitals' DICOM files are named by numbers without any suffix.
"""

from pathlib import Path

from ecgfed.base.safe_io import open_regular

#: The suffixes of each format; a path with none of them, and without content that is known, is a WFDB record's.
FORMATS = {
    "wfdb": (".hea", ".dat"),
    "edf": (".edf", ".bdf"),
    "csv": (".csv", ".tsv", ".txt"),
    "numpy": (".npy", ".npz"),
    "dicom": (".dcm", ".dicom"),
    "aecg": (".xml",),
    "muse": (".xml",),
    "scp": (".scp",),
    "ishne": (".ecg",),
}
#: What begins a file of EDF, of BDF, and of ISHNE 1.0.
EDF_VERSION, BDF_VERSION, ISHNE_MAGIC = b"0       ", b"\xffBIOSEMI", b"ISHNE1.0"
#: Suffixes that others use too: a file of one of them is a recording only if its content says so.
_SHARED = ("aecg", "muse", "ishne")
#: Other suffixes under which recordings are looked for in folders.
_ALSO = (".rec",)
_ROOTS = {"aecg": "AnnotatedECG", "muse": "RestingECG"}
_LOOKED_AT = 4096


def kind_of_content(path: Path) -> str | None:
    """Return the format that the first bytes of a file are of; None for text, WFDB, anything else, or no file."""
    try:
        with open_regular(path) as stream:
            head = stream.read(_LOOKED_AT)
    except (OSError, ValueError):  # none, no regular file, or a name that cannot be one
        return None
    if head.startswith((EDF_VERSION, BDF_VERSION)) and head[184:192].strip().isdigit():
        return "edf"
    if head[128:132] == b"DICM":
        return "dicom"
    if head.startswith(ISHNE_MAGIC):
        return "ishne"
    if head.startswith(b"\x93NUMPY") or (head.startswith(b"PK\x03\x04") and b".npy" in head[30:300]):
        return "numpy"
    if head[8:10] == b"\0\0" and head[16:22] == b"SCPECG":
        return "scp"
    if head.lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n")[:1] == b"<":
        plain = head.replace(b"\0", b"")  # UTF-16
        return next((kind for kind, root in _ROOTS.items() if f"<{root}".encode() in plain or
                     f":{root}".encode() in plain), None)  # fmt: skip
    return None


def kind_of_suffix(path: Path) -> str | None:
    """Return the format that a path's suffix names, or None."""
    suffix = path.suffix.casefold()
    return next((kind for kind, suffixes in FORMATS.items() if suffix in suffixes), None)


def may_be_recording(path: Path) -> bool:
    """Say whether a file that was come upon in a folder may be a recording by its name."""
    suffix = path.suffix.casefold()
    return not suffix or suffix[1:].isdigit() or suffix in _ALSO or kind_of_suffix(path) is not None


def is_of_kind(path: Path, kind: str) -> bool:
    """Say whether a file that was come upon, not named, is a recording of the format ``kind`` that it seems to be."""
    return kind not in _SHARED or kind_of_content(path) == kind


def name_without_suffix(path: Path) -> str:
    """Return a recording's name: its file's without suffix, but all of one that ends in a number, as DICOM's do."""
    return path.name if path.suffix[1:].isdigit() else path.stem
