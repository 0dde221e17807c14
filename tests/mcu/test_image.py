"""A model's image and its delta: firmware of one model with the image of another answers as that one's firmware."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import train_run
from mcu_sources import HERE, SANITIZED, SOURCES, STRICT, build, run_c, tool
from support import Said, assert_refused
from test_c_stream import a_minute

from ecgfed.exports.device.delta import ANY, tag_of
from ecgfed.exports.device.image import IMAGE, patient_tag
from ecgfed.tasks.delta import apply_delta, show_delta
from ecgfed.tasks.export_delta import export_delta
from ecgfed.tasks.export_mcu import export_mcu
from ecgfed.tasks.keys import KeyPair, new_key

pytest_plugins = ("mcu_fixtures",)
pytest.importorskip("cryptography")
Run = Callable[..., Said]
C = Path(__file__).parents[2] / "ecgfed" / "exports" / "mcu" / "c"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyPair:
    return new_key(tmp_path_factory.mktemp("keys") / "clinic")


@pytest.fixture(scope="module")
def earlier(mcu_run: Path) -> Path:
    """The C sources of a shorter training: what the device has."""
    run = train_run(mcu_run.parent / "mcu-cohort", mcu_run.parent / "mcu-shorter", rounds=3)
    return export_mcu(run, mcu_run.parent / "mcu-earlier", int8_loss=1.0).path


@pytest.fixture(scope="module")
def delta(mcu_run: Path, earlier: Path, keys: KeyPair) -> Path:
    out = mcu_run.parent / "mcu.delta"
    export_delta(mcu_run, out, earlier, sign=keys.private, counter=1, target="mcu", int8_loss=1.0)
    return out


def build_image_program(folder: Path, out: Path) -> Path:
    """Compile the driver that takes its model from an image."""
    sources = [HERE / "image_main.c", *(folder / name for name in (*SOURCES, "ecgfed_golden.c", "ecgfed_image.c"))]
    flags = [*STRICT, *SANITIZED, f"-I{folder}", f"-I{HERE}"]
    subprocess.run([tool("gcc"), *flags, "-o", str(out), *map(str, sources), "-lm"], check=True)
    return out


def test_the_delta_gives_the_image_of_a_full_export(
    sources: Path, earlier: Path, delta: Path, keys: KeyPair, tmp_path: Path
) -> None:
    summary = apply_delta(delta, earlier, tmp_path / "new.img", trusted=keys.public)
    assert (tmp_path / "new.img").read_bytes() == (sources / IMAGE).read_bytes()
    assert (earlier / IMAGE).read_bytes() != (sources / IMAGE).read_bytes()
    assert summary.signature.trusted
    assert summary.delta.header.patient == ANY  # the global model
    again = apply_delta(delta, earlier / IMAGE, tmp_path / "again.img", trusted=keys.public)
    assert again.to_dict() == summary.to_dict()


@pytest.mark.mcu
def test_firmware_with_an_image_answers_as_the_models_own(sources: Path, earlier: Path, tmp_path: Path) -> None:
    """Every bit of every beat: label, probabilities, uncertain, far."""
    signal_mv = a_minute(5)
    file = tmp_path / "signal.f32"
    signal_mv.astype(np.float32).tofile(file)
    other = build_image_program(earlier, tmp_path / "image")
    own = run_c(build(sources, tmp_path / "own", "gcc", *SANITIZED), signal_mv, tmp_path)
    for image, same in ((sources / IMAGE, True), (earlier / IMAGE, False)):
        command = [str(other), str(image), str(file), "360", "1", "0"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert (done.stdout == own.text) is same


@pytest.mark.mcu
def test_spoiled_images_are_refused(sources: Path, earlier: Path, tmp_path: Path) -> None:
    """Not whole, of another layout, or no image: 8. A number that was changed fails the self-test: 7."""
    program = build_image_program(earlier, tmp_path / "image")
    whole = (sources / IMAGE).read_bytes()
    spoiled = {size: whole[:size] for size in (0, 7, 127, 128, 500, len(whole) - 4)}
    spoiled[-1] = whole + bytes(4)
    spoiled |= {-2 - at: whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in (0, 8, 10, 12, 16, 47, 124)}
    for data in spoiled.values():
        (tmp_path / "bad.img").write_bytes(data)
        command = [str(program), str(tmp_path / "bad.img"), "none", "360", "1", "0"]
        assert subprocess.run(command, check=False).returncode == 8
    (tmp_path / "hot.img").write_bytes(whole[:112] + np.float32(1e6).tobytes() + whole[116:])  # temperature
    command = [str(program), str(tmp_path / "hot.img"), "none", "360", "1", "0"]
    assert subprocess.run(command, check=False).returncode == 7


@pytest.mark.mcu
def test_a_device_takes_the_models_delta(earlier: Path, sources: Path, delta: Path, tmp_path: Path) -> None:
    """Flash, signature, self-test by golden vectors and switch together."""
    if not Path("/usr/include/sodium.h").exists():
        pytest.skip("libsodium-dev is not installed: 'make mcu' brings it on Debian")
    parts = (*SOURCES, "ecgfed_golden.c", "ecgfed_image.c", "ecgfed_update.c")
    flags = [*STRICT, *SANITIZED, "-DECGFED_LIBSODIUM", "-DWITH_MODEL", "-DSLOT=262144u", f"-I{earlier}"]
    program = tmp_path / "update"
    files = [str(HERE / "update_main.c"), *(str(earlier / name) for name in parts)]
    subprocess.run([tool("gcc"), *flags, "-o", str(program), *files, "-lm", "-lsodium"], check=True)
    old, new = (earlier / IMAGE).read_bytes(), (sources / IMAGE).read_bytes()
    (tmp_path / "slot-a").write_bytes(old.ljust(262144, b"\xff"))
    key, nobody = show_delta(delta).delta.header.public_key.hex(), tag_of("nobody").hex()
    for command in (("provision", len(old), 0), ("apply", delta)):
        line = [program, tmp_path, 2, key, nobody, nobody, -1, *command]
        done = subprocess.run(list(map(str, line)), capture_output=True, text=True, check=True)
        assert done.stdout.split()[0] == "0", done.stdout
    assert done.stdout.split()[1:4] == ["1", str(len(new)), "1"]
    assert (tmp_path / "slot-b").read_bytes()[: len(new)] == new


def test_the_model_of_another_patient_or_layout_is_refused(
    mcu_run: Path, earlier: Path, keys: KeyPair, ecgfed: Run, tmp_path: Path
) -> None:
    own = {}
    for patient in ("p1", "p2"):
        own[patient] = export_mcu(mcu_run, tmp_path / patient, patient=patient, int8_loss=1.0).path
        assert patient_tag((own[patient] / IMAGE).read_bytes()) == tag_of(patient)
    line = ("export", own["p2"], "--target", "mcu", "--sign", keys.private, "--counter", 1, "--out", tmp_path / "d")
    assert_refused(ecgfed(*line, "--delta", own["p1"]), "another patient's model")
    assert_refused(ecgfed(*line, "--delta", earlier, "--patient", "p1"), "--patient", "p1")
    data = bytearray((earlier / IMAGE).read_bytes())
    data[20] ^= 1
    (tmp_path / "odd.img").write_bytes(data)
    assert_refused(ecgfed(*line, "--delta", tmp_path / "odd.img"), "odd.img", "another net", "leave --delta out")
    assert not (tmp_path / "d").exists()
    said = ecgfed(*line, "--delta", earlier, "--json")
    assert said.code == 0, said.err
    assert show_delta(tmp_path / "d").delta.header.patient == tag_of("p2")
