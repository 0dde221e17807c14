/* Days with few samples: float32 millivolts from stdin, a given number of times, with a given number of missing samples
 * before each. Arguments: times, missing samples, 1 to push these (otherwise they are counted only). Prints
 * "beat sample label probability" for each beat, "counters" and the bytes of the counter block in hexadecimal.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ecgfed.h"

#define MOST 65536

static ecgfed_state state;

static void on_beat(void *user, const ecgfed_beat *beat)
{
    (void)user;
    printf("beat %lld %d %.9g\n", (long long)beat->sample, (int)beat->label, (double)beat->probability);
}

static void miss(int64_t samples, int pushed)
{
    /* flat lines are found in parts of 180 samples, and a gap of more than six of them holds none */
    const int64_t rest = pushed ? samples : samples % 180 + 7 * 180;
    for (int64_t i = 0; i < rest; i++) {
        ecgfed_push_uv(&state, 0, 1);
    }
    state.sample_count += samples - rest;
    state.counters.samples += (uint64_t)(samples - rest);
    state.counters.missing += (uint64_t)(samples - rest);
}

int main(int count, char **args)
{
    static float mv[MOST];
    const size_t samples = fread(mv, sizeof *mv, MOST, stdin);
    uint8_t bytes[ECGFED_COUNTERS_BYTES];
    if (count < 4) {
        return 2;
    }
    ecgfed_init(&state, on_beat, NULL);
    for (long i = 0; i < atol(args[1]); i++) {
        miss(atoll(args[2]), atoi(args[3]));
        ecgfed_push(&state, mv, samples);
    }
    ecgfed_finish(&state);
    ecgfed_counters_write(&state.counters, bytes);
    printf("counters ");
    for (int i = 0; i < ECGFED_COUNTERS_BYTES; i++) {
        printf("%02x", bytes[i]);
    }
    printf("\n");
    return 0;
}
