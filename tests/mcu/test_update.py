"""Signed deltas on a device: what ``ecgfed_update.c`` refuses, and what is in use whenever the power is cut."""

import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from mcu_sources import CORTEX_M4, HERE, SANITIZED, STRICT, tool

from ecgfed.exports.device.delta import ANY, HEADER_BYTES, Kind, make_delta, tag_of
from ecgfed.exports.device.signatures import Signer
from ecgfed.tasks.keys import new_key

pytest.importorskip("cryptography")
pytestmark = pytest.mark.mcu
C = Path(__file__).parents[2] / "ecgfed" / "exports" / "mcu" / "c"
(OK, FORMAT, SIGNER, SIGNATURE, KIND, DEVICE, PATIENT, COUNTER, BASE, SLOT, FLASH, TEST, FELL_BACK, NONE) = range(14)
#: What a cut of the power ends the program with.
CUT = 7
AREAS = ("slot-a", "slot-b", "record-a", "record-b")


@dataclass(frozen=True)
class Answer:
    """What the program printed: the result, what is in use, and how often it wrote and tested."""

    result: int
    slot: int
    size: int
    counter: int
    steps: int
    tests: int


@dataclass(frozen=True)
class Device:
    """A device with its flash in a folder."""

    program: Path
    folder: Path
    key: str

    def run(self, *command: object, cut: int = -1, patient: str = "p1", kind: int = Kind.MCU) -> Answer | None:
        """Run a command; None where the power was cut."""
        tags = (tag_of("w17").hex(), tag_of(patient).hex())
        line = [self.program, self.folder, int(kind), self.key, *tags, cut, *command]
        done = subprocess.run(list(map(str, line)), capture_output=True, text=True, check=False)
        if done.returncode == CUT:
            return None
        assert done.returncode == 0, f"{done.returncode} {done.stdout} {done.stderr[:3000]}"
        return Answer(*map(int, done.stdout.splitlines()[0].split()))

    def areas(self) -> list[bytes]:
        """The bytes of the flash."""
        return [(self.folder / name).read_bytes() for name in AREAS]

    def in_use(self) -> bytes:
        """The image in use, as the device finds it at its start."""
        found = self.run("start")
        assert found is not None
        assert found.result == OK
        return self.areas()[found.slot][: found.size]


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer(new_key(tmp_path_factory.mktemp("keys") / "clinic").private)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not Path("/usr/include/sodium.h").exists():
        pytest.skip("libsodium-dev is not installed: 'make mcu' brings it on Debian")
    out = tmp_path_factory.mktemp("update") / "update"
    sources = [str(HERE / "update_main.c"), str(C / "ecgfed_update.c")]
    flags = [*STRICT, *SANITIZED, "-DECGFED_LIBSODIUM", f"-I{C}"]
    subprocess.run([tool("gcc"), *flags, "-o", str(out), *sources, "-lsodium"], check=True)
    return out


Image = Callable[..., bytes]


def image(seed: int, size: int = 3000) -> bytes:
    """Bytes of which most are those of every other image of this size."""
    made = bytearray(random.Random(0).randbytes(size))
    at = 100 + 200 * (seed % 5)
    made[at : at + 300] = random.Random(seed).randbytes(300)
    return b"M" + bytes(made[1:size])


@pytest.fixture
def device(program: Path, signer: Signer, tmp_path: Path) -> Device:
    """A device with image 1 and counter 5."""
    folder = tmp_path / "flash"
    folder.mkdir()
    (folder / "slot-a").write_bytes(image(1).ljust(16 * 1024, b"\xff"))
    made = Device(program, folder, signer.public_key.hex())
    assert made.run("provision", len(image(1)), 5) == Answer(OK, 0, 0, 0, 6, 1)
    return made


def delta(signer: Signer, folder: Path, old: bytes, new: bytes, counter: int, **others: object) -> Path:
    """Write a delta for this device and patient."""
    values = {"kind": Kind.MCU, "device": tag_of("w17"), "patient": tag_of("p1"), **others}
    file = folder / f"{counter}.delta"
    file.write_bytes(make_delta(old, new, counter=counter, signer=signer, **values))  # type: ignore[arg-type]
    return file


def test_updates_alternate_between_the_slots(device: Device, signer: Signer, tmp_path: Path) -> None:
    for i, size in enumerate((3000, 256, 10_000, 16_384)):
        new = image(i + 2, size)
        file = delta(signer, tmp_path, device.in_use(), new, 6 + i, **({"device": ANY, "patient": ANY} if i else {}))
        done = device.run("apply", file)
        assert done is not None
        assert (done.result, done.slot, done.size, done.counter, done.tests) == (OK, (i + 1) % 2, size, 6 + i, 1)
        assert device.in_use() == new


@pytest.mark.parametrize(
    ("result", "changes"),
    [
        (KIND, {"kind": Kind.BUNDLE}),
        (DEVICE, {"device": tag_of("w18")}),
        (PATIENT, {"patient": tag_of("p2")}),
        (COUNTER, {"counter": 5}),
        (COUNTER, {"counter": 4}),
        (BASE, {"old": image(3)}),
        (BASE, {"old": image(1)[:-1]}),
        (SLOT, {"new": bytes(16 * 1024 + 1)}),
        (SLOT, {"new": b""}),
    ],
)
def test_a_delta_that_is_not_for_this_device_now(
    device: Device, signer: Signer, tmp_path: Path, result: int, changes: dict[str, object]
) -> None:
    before = device.areas()
    whole = {"old": image(1), "new": image(2), "counter": 6} | changes
    done = device.run("apply", delta(signer, tmp_path, **whole))  # type: ignore[arg-type]
    assert done is not None
    assert (done.result, done.steps, done.tests) == (result, 0, 0)
    assert device.areas() == before


def test_another_key_and_another_signature(device: Device, signer: Signer, tmp_path: Path) -> None:
    other = Signer(new_key(tmp_path / "stranger").private)
    before = device.areas()
    done = device.run("apply", delta(other, tmp_path, image(1), image(2), 6))
    assert done is not None
    assert (done.result, done.steps) == (SIGNER, 0)
    data = bytearray(delta(signer, tmp_path, image(1), image(2), 6).read_bytes())
    data[16:24] = (7).to_bytes(8, "little")  # a counter that nobody signed
    (tmp_path / "forged").write_bytes(data)
    done = device.run("apply", tmp_path / "forged")
    assert done is not None
    assert (done.result, done.steps) == (SIGNATURE, 0)
    assert device.areas() == before


def test_a_repeated_delta_and_a_way_back(device: Device, signer: Signer, tmp_path: Path) -> None:
    """From 1 to 2 and back to 1: the first delta fits again by its base, but not by its counter."""
    first = delta(signer, tmp_path, image(1), image(2), 6)
    results = [device.run("apply", file) for file in (first, delta(signer, tmp_path, image(2), image(1), 7), first)]
    assert [done.result for done in results if done is not None] == [OK, OK, COUNTER]
    assert device.in_use() == image(1)


def test_an_image_that_fails_its_self_test(device: Device, signer: Signer, tmp_path: Path) -> None:
    done = device.run("apply", delta(signer, tmp_path, image(1), b"!" + image(2), 6))
    assert done is not None
    assert (done.result, done.tests) == (TEST, 1)
    assert device.in_use() == image(1)
    assert device.run("apply", delta(signer, tmp_path, image(1), image(2), 6)) is not None
    assert device.in_use() == image(2)


@pytest.mark.parametrize("earlier", [0, 1])
def test_the_power_is_cut_at_every_step(device: Device, signer: Signer, tmp_path: Path, earlier: int) -> None:
    """Half an erase, half a block, before and after each: the old image or the new one is in use, never another."""
    old = image(1)
    for i in range(earlier):
        new = image(10 + i)
        assert device.run("apply", delta(signer, tmp_path, old, new, 6 + i)) is not None
        old = new
    new, flash = image(20, 3500), device.areas()
    file, again = delta(signer, tmp_path, old, new, 20), 0
    whole = device.run("apply", file)
    assert whole is not None
    assert whole.result == OK
    seen = []
    for cut in range(whole.steps):
        for name, data in zip(AREAS, flash, strict=True):
            (device.folder / name).write_bytes(data)
        assert device.run("apply", file, cut=cut) is None
        seen.append(device.in_use())
        assert seen[-1] in (old, new)
        done = device.run("apply", file)
        assert done is not None
        assert done.result == (OK if seen[-1] == old else COUNTER)
        slot = done.slot if done.result == OK else (earlier + 1) % 2
        assert device.areas()[slot][: len(new)] == new
        again += done.result == OK
    assert again >= whole.steps - 1  # only once the record is whole is the new image in use
    assert whole.steps > 30


def test_a_damaged_image_gives_way_to_the_one_before(device: Device, signer: Signer, tmp_path: Path) -> None:
    first = delta(signer, tmp_path, image(1), image(2), 6)
    assert device.run("apply", first) is not None
    slot = bytearray((device.folder / "slot-b").read_bytes())
    slot[1000] ^= 4
    (device.folder / "slot-b").write_bytes(slot)
    found = device.run("start")
    assert found is not None
    assert (found.result, found.slot, found.counter) == (FELL_BACK, 0, 6)
    repeated = device.run("apply", first)
    assert repeated is not None
    assert repeated.result == COUNTER
    done = device.run("apply", delta(signer, tmp_path, image(1), image(3), 7))
    assert done is not None
    assert (done.result, done.slot) == (OK, 1)
    assert device.in_use() == image(3)
    for name in ("slot-a", "slot-b"):
        (device.folder / name).write_bytes(bytes(16 * 1024))
    lost = device.run("start")
    assert lost is not None
    assert lost.result == NONE


@pytest.mark.parametrize("seed", range(4))
def test_spoiled_deltas_write_nothing(device: Device, signer: Signer, tmp_path: Path, seed: int) -> None:
    """Bits flipped, ends cut, bytes added, numbers overwritten: 2,000 ways each, under the sanitizers."""
    before = device.areas()
    file = delta(signer, tmp_path, image(1), image(2), 6)
    assert device.run("fuzz", file, seed, 2000) == Answer(0, 0, 0, 0, 0, 0)
    assert device.areas() == before


@pytest.mark.parametrize("seed", range(6))
def test_signed_nonsense_stays_in_the_other_slot(device: Device, signer: Signer, tmp_path: Path, seed: int) -> None:
    """A signer's own mistake: instructions that do not make the result; the image in use stays."""
    chance = random.Random(seed)
    data = bytearray(delta(signer, tmp_path, image(1), image(2), 6).read_bytes())
    for _ in range(1 + seed):
        data[HEADER_BYTES + chance.randrange(len(data) - HEADER_BYTES) // 4 * 4 % 40] = chance.randrange(256)
    import hashlib

    data[232:296] = hashlib.sha512(data[HEADER_BYTES:]).digest()
    data[328:HEADER_BYTES] = signer.sign(bytes(data[:328]))
    (tmp_path / "nonsense").write_bytes(data)
    done = device.run("apply", tmp_path / "nonsense")
    assert done is not None
    assert done.result in (FORMAT, FLASH)
    assert device.in_use() == image(1)


def test_strict_compilers_take_it(tmp_path: Path) -> None:
    """For Cortex-M4 with Monocypher's functions, natively with libsodium's, and empty without either."""
    arm = (*STRICT, *CORTEX_M4, "-Wconversion", "-DECGFED_MONOCYPHER", f"-I{HERE / 'monocypher'}")
    for compiler, flags in (("gcc", STRICT), ("clang", STRICT), ("arm-none-eabi-gcc", arm)):
        command = [tool(compiler), *flags, "-c", "-o", str(tmp_path / "update.o"), str(C / "ecgfed_update.c")]
        subprocess.run(command, check=True)
    listed = subprocess.run(
        [tool("arm-none-eabi-nm"), "-u", tmp_path / "update.o"], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1] for line in listed.stdout.splitlines()}
    crypto = {f"crypto_{name}" for name in ("ed25519_check", "sha512_init", "sha512_update", "sha512_final")}
    assert names <= crypto | {"memcpy", "memset", "memcmp"}
    assert names > crypto
