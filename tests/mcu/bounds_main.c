/* Largest magnitude of each 32-bit number that counts, while float32 millivolts from stdin are pushed through the rate's
 * filter. Prints "name magnitude" for the first half of the samples, then for all.
 */
#include <stdio.h>

#include "ecgfed_rate.h"

#define NAMES 18

static ecgfed_state state;
static ecgfed_rate rate;
static int64_t largest[NAMES];
static const char *const names[NAMES] = {
    "count",   "signal_start", "measured", "blocks",    "decided",    "open_at",   "candidate", "candidates", "sizes",
    "waiting", "unseen",       "ring",     "intervals", "flat_part", "flat_index", "lag",       "newest",     "lost",
};

static void no_beat(void *user, const ecgfed_beat *beat)
{
    (void)user;
    (void)beat;
}

static void look(void)
{
    const ecgfed_qrs *qrs = &state.qrs;
    const int32_t last = qrs->candidates > 0 ? qrs->candidate[qrs->candidates - 1].at : 0;
    const int32_t numbers[NAMES] = {
        qrs->count,       qrs->signal_start, qrs->measured,    qrs->blocks,   qrs->decided,    qrs->open_at, last,
        qrs->candidates,  qrs->sizes,        state.waiting,    state.unseen,  state.ring_count, state.intervals,
        state.flat.in_part, state.flat.part, rate.lag,         rate.newest,   rate.lost,
    };
    for (int i = 0; i < NAMES; i++) {
        const int64_t magnitude = numbers[i] < 0 ? -(int64_t)numbers[i] : numbers[i];
        largest[i] = magnitude > largest[i] ? magnitude : largest[i];
    }
}

static void print_all(void)
{
    for (int i = 0; i < NAMES; i++) {
        printf("%s %lld\n", names[i], (long long)largest[i]);
    }
}

int main(void)
{
    static float mv[1 << 21];
    const size_t samples = fread(mv, sizeof *mv, sizeof mv / sizeof *mv, stdin);
    ecgfed_init(&state, no_beat, NULL);
    ecgfed_rate_init(&rate, &state);
    for (size_t i = 0; i < samples; i++) {
        if (i == samples / 2) {
            print_all();
        }
        ecgfed_rate_push(&rate, mv + i, 1);
        look();
    }
    print_all();
    return 0;
}
