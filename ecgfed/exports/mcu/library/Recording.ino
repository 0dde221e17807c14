// Reads a recording from flash and prints one beat per line: seconds, class, probability. Research use only.
#include <ecgfed.h>
#include <golden.h>  // the recording of the self-test, 12 s at 360 Hz

static ecgfed_state state;  // all memory of the library

static void onBeat(void *, const ecgfed_beat *beat) {
  Serial.print(static_cast<float>(beat->sample) / ECGFED_FS_HZ, 3);
  Serial.print(",");
  Serial.print(ecgfed_class_names[beat->label]);
  Serial.print(",");
  Serial.println(beat->probability, 3);
}

void setup() {
  Serial.begin(115200);
  ecgfed_init(&state, onBeat, nullptr);
  for (int32_t i = 0; i < ECGFED_GOLDEN_SAMPLES; i++) {
    ecgfed_push_uv(&state, ecgfed_golden_uv[i], 0);  // in your program: the sample that has arrived, in microvolts
  }
  ecgfed_finish(&state);
}

void loop() {}
