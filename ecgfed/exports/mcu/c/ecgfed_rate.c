/* ecgfed: resampling from the device's rate to 360 Hz. */
#include "ecgfed_build.h"

#include "ecgfed_rate.h"

#include <math.h>
#include <string.h>

void ecgfed_rate_init(ecgfed_rate *rate, ecgfed_state *state)
{
    (void)memset(rate, 0, sizeof *rate);
    (void)memset(rate->missing, 1, sizeof rate->missing);
    rate->state = state;
    rate->lost = ECGFED_RATE_HISTORY;
}

/* Index of the sample that is `back` samples older than the newest. */
static int32_t history_index(const ecgfed_rate *rate, int32_t back)
{
    const int32_t index = rate->newest - back;
    return index < 0 ? index + ECGFED_RATE_HISTORY : index;
}

/* Output the next sample: a weighted mean of differences from the nearest sample, so that a constant stays unchanged.
 * Missing if the nearest sample is. */
static void push_output(ecgfed_rate *rate)
{
    /* lag is at most 0: the output precedes the newest sample by that much */
    const int32_t nearest = (-rate->lag + ECGFED_RATE_UP / 2) / ECGFED_RATE_UP;
    const float middle = rate->history[history_index(rate, nearest)];
    float sum = 0.0f;
    if (rate->missing[history_index(rate, nearest)]) {
        sum = NAN;
        ecgfed_push(rate->state, &sum, 1);
        return;
    }
    for (int32_t back = 0, tap = ECGFED_RATE_HALF + rate->lag; tap <= 2 * ECGFED_RATE_HALF; back++) {
        if (tap >= 0 && back < ECGFED_RATE_HISTORY) {
            sum += ecgfed_rate_taps[tap] * (rate->history[history_index(rate, back)] - middle);
        }
        tap += ECGFED_RATE_UP;
    }
    sum += middle;
    ecgfed_push(rate->state, &sum, 1);
}

/* Store one sample; the filter sees the last value in place of a missing one. */
static void take(ecgfed_rate *rate, float mv, int32_t missing)
{
    const float last = rate->history[rate->newest];
    rate->newest = rate->newest + 1 == ECGFED_RATE_HISTORY ? 0 : rate->newest + 1;
    rate->history[rate->newest] = missing ? last : mv;
    rate->missing[rate->newest] = (uint8_t)missing;
    if (!missing && rate->lost == ECGFED_RATE_HISTORY) { /* no valid history: extend the first value backwards */
        for (int32_t i = 0; i < ECGFED_RATE_HISTORY; i++) {
            rate->history[i] = mv;
        }
    }
    rate->lost = !missing ? 0 : rate->lost < ECGFED_RATE_HISTORY ? rate->lost + 1 : rate->lost;
}

void ecgfed_rate_push(ecgfed_rate *rate, const float *mv, size_t count)
{
    if (ECGFED_RATE_UP == 1 && ECGFED_RATE_DOWN == 1) {
        ecgfed_push(rate->state, mv, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        take(rate, mv[i], !(mv[i] - mv[i] == 0.0f));
        for (; rate->lag + ECGFED_RATE_HALF < ECGFED_RATE_UP; rate->lag += ECGFED_RATE_DOWN) {
            push_output(rate);
        }
        rate->lag -= ECGFED_RATE_UP;
    }
}

void ecgfed_rate_finish(ecgfed_rate *rate)
{
    if (!(ECGFED_RATE_UP == 1 && ECGFED_RATE_DOWN == 1)) {
        const float last = rate->history[rate->newest];
        int32_t after = 0; /* number of samples appended after the last one, for the outputs before its end */
        for (; rate->lag + after * ECGFED_RATE_UP < 0; after++) {
            const int32_t missing = rate->missing[rate->newest];
            take(rate, last, missing);
            for (; rate->lag + ECGFED_RATE_HALF < ECGFED_RATE_UP && rate->lag + after * ECGFED_RATE_UP < 0;
                 rate->lag += ECGFED_RATE_DOWN) {
                push_output(rate);
            }
            rate->lag -= ECGFED_RATE_UP;
        }
    }
    ecgfed_finish(rate->state);
}

int64_t ecgfed_rate_sample(int64_t at_360_hz)
{
    return (2 * at_360_hz * ECGFED_RATE_DOWN + ECGFED_RATE_UP) / (2 * ECGFED_RATE_UP);
}
