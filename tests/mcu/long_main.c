/* A segment that appears longer than its samples: after the first part of the float32 millivolts from stdin every
 * counter of the state is advanced. Arguments: samples of the first part, seconds, those that the detector counts itself,
 * and microvolts by which its signal moves every ten seconds from then on. Prints one line per beat: sample label.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ecgfed.h"

static ecgfed_state state;

static void on_beat(void *user, const ecgfed_beat *beat)
{
    (void)user;
    printf("%lld %d\n", (long long)beat->sample, (int)beat->label);
}

/* Advance the detector's own numbers, as if they did not begin anew; `seconds` is a multiple of ECGFED_STATISTICS. */
static void count_on(ecgfed_qrs *qrs, int32_t seconds)
{
    const int32_t at_200 = seconds * ECGFED_BLOCK;
    qrs->open_at += at_200;
    qrs->signal_start += at_200;
    qrs->count += at_200;
    qrs->measured += seconds;
    qrs->blocks += seconds;
    qrs->decided += seconds;
    for (int32_t i = 0; i < qrs->candidates; i++) {
        qrs->candidate[i].at += at_200;
    }
}

/* Advance by `seconds`, of which the detector counts `counted` itself; the rest lies before its origin. */
static void set_forward(int64_t seconds, int32_t counted)
{
    const int64_t at_360 = seconds * ECGFED_FS_HZ;
    ecgfed_qrs *qrs = &state.qrs;
    state.sample_count += at_360;
    state.ring_start += at_360;
    state.pending[0].sample += at_360;
    qrs->fed += at_360;
    qrs->next_due += 5 * at_360;
    qrs->reported += at_360;
    qrs->open_peak += at_360;
    qrs->origin += (seconds - counted) * ECGFED_FS_HZ;
    count_on(qrs, counted);
}

/* Move the detector's signal by what steps across months of short gaps, which it leaves out, may add up to. */
static void move(int32_t offset_uv)
{
    ecgfed_qrs *qrs = &state.qrs;
    for (int32_t i = 0; i < qrs->count - qrs->signal_start; i++) {
        qrs->signal[i] = (int32_t)((uint32_t)qrs->signal[i] + (uint32_t)offset_uv);
    }
    for (int32_t i = 0; i < 3; i++) {
        qrs->out[i] = (int32_t)((uint32_t)qrs->out[i] + (uint32_t)offset_uv);
    }
    qrs->last_out = (int32_t)((uint32_t)qrs->last_out + (uint32_t)offset_uv);
}

int main(int count, char **args)
{
    const long first = count > 3 ? atol(args[1]) : 0;
    float mv;
    ecgfed_init(&state, on_beat, NULL);
    for (long i = 0; fread(&mv, sizeof mv, 1, stdin) == 1; i++) {
        if (count > 3 && i == first) {
            set_forward(atoll(args[2]), (int32_t)atol(args[3]));
        }
        if (count > 4 && i > first && i % 3600 == 0) {
            move((int32_t)atol(args[4]));
        }
        ecgfed_push(&state, &mv, 1);
    }
    ecgfed_finish(&state);
    return 0;
}
