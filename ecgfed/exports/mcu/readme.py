"""``README.md`` of a folder of C sources: how to run them, and their memory use."""

import numpy as np

from ecgfed.domain.beats.windows import FS_HZ
from ecgfed.domain.signal.filters import band_pass_taps
from ecgfed.domain.signal.qrs_net import detector_weights
from ecgfed.exports.mcu.model import McuModel, buffers, layer_arrays_bytes

_TEXT = """# {title}

One ECG lead in, beats with their class out, in C99: no allocation, no operating system, `math.h`, `string.h` and
`stdint.h` alone. Research use only, not for diagnosis.

```sh
make test                            # the self-test against Python's answers; builds ./example too
./example < example.txt              # millivolts at {fs_hz} a second, one a line; beats come out
make size CROSS=arm-none-eabi- FLAGS="-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -Os"
```

In your firmware, take every `ecgfed*.c` but the golden ones, and every `.h`:

```c
static ecgfed_state state;                      /* all memory there is */
ecgfed_init(&state, on_beat, NULL);
ecgfed_push(&state, samples_mv, count);         /* from where samples arrive; NAN where none was recorded */
```

| what | value |
| --- | --- |
{table}

Flash, RAM, stack and multiplications on a Cortex-M4, measured: docs/microcontroller.md of ecgfed. `make size` measures
these very files. Never compile with `-ffast-math`.

- Samples are millivolts of {leads}{rate}.
- A beat comes at most 4.7 s after its R peak{wait}.
- `ecgfed_announce` also reports R peaks a third of a second after the beat (`ecgfed_early.h`).
- More than 14 missing samples in a row end a stretch: the filter, the levels and the windows begin anew after it.
- One state serves one recording at a time. A push that answers a beat takes the longest, millions of instructions:
  push from a task, not from the interrupt that reads the samples.
- A newer version of this model comes as a signed delta: `ecgfed_update.h`, `ecgfed_image.h`, docs/updates.md of ecgfed.
  `ecgfed_image.c` needs the golden sources; `ecgfed_update.c` is empty unless a library for signatures is named.
- Another inference than the int8 one here (TensorFlow Lite Micro, say) is plugged in by `ecgfed_set_inference`.
- A beat whose logits are not finite, or whose window shows nothing of the heart, has the label `ECGFED_UNCLASSIFIED`
  and is uncertain; `unclassified` says why. Tell the limits of your converter by `ecgfed_set_rails`.
- `state.counters` has the counts of the recording; `ecgfed_counters_write` writes them as bytes for a phone.
- `ecgfed_monitor_attach` adds quality, pacing and drift (`ecgfed_monitor.h`, 104 kB of RAM); without it leave out
  `ecgfed_monitor.c`, `ecgfed_quality*.c`, `ecgfed_pacing.c` and `ecgfed_drift.c`.
- MISRA.md lists deviations from MISRA C:2012.
"""


_AT_360 = " at 360 a second; for another rate, use `ecgfed export --target mcu --fs`"
_OTHER_RATE = (
    " at {fs_hz} a second: push them with `ecgfed_rate_push`, which brings them to the 360 that\n"
    "  `ecgfed_push` takes and beats are numbered in; `ecgfed_rate_sample` gives the device's own number"
)


def _plain(text: str) -> str:
    """Return text without Markdown markup, for a table cell."""
    return "".join(character if character.isalnum() or character in " .,:;/+-()=%" else "_" for character in text)


def readme(model: McuModel, fs_hz: int) -> str:
    """Return the text, with all names from the bundle escaped."""
    metadata = {name: _plain(value) for name, value in model.metadata.items()}
    taps = (len(band_pass_taps(FS_HZ)) // 2 + 1) * np.dtype(np.float32).itemsize
    detector = sum(values.size * 2 for values in detector_weights().values())
    buffer = buffers(model)
    room = 4 * (buffer["ECGFED_FLOATS_FIRST"] + buffer["ECGFED_FLOATS_SECOND"]) + buffer["ECGFED_BYTES"]
    rows = {
        **metadata,
        "classes": ", ".join(_plain(name) for name in model.classes),
        "numbers of the net": f"{layer_arrays_bytes(model):,} bytes of flash",
        "numbers of the detector": f"about {detector:,} bytes of flash",
        "taps of the filter": f"{taps:,} bytes of flash",
        "buffers of the net": f"{room:,} bytes of RAM, in the state",
        "multiplications of the net": f"{model.multiplications:,} a beat",
    }
    return _TEXT.format(
        title=f"ecgfed on a microcontroller: {metadata.get('model', 'a model')}",
        table="\n".join(f"| {name} | {value} |" for name, value in rows.items()),
        fs_hz=fs_hz,
        rate=_AT_360 if fs_hz == FS_HZ else _OTHER_RATE.format(fs_hz=fs_hz),
        leads=metadata.get("lead", "the lead it was trained on"),
        wait=", and once the next R peak is known" if model.spec.rr else "",
    )
