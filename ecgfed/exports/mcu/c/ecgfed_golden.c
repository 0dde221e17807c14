/* ecgfed: the self-test's recording, pushed in chunks of changing length. */
#include "ecgfed_build.h"

#include "ecgfed_golden.h"

#include "golden.h"

/* An activation near the middle between two int8 steps may round differently on another machine. */
#define TOLERANCE 0.02f

typedef struct {
    const ecgfed_golden_beats *expected;
    int32_t beats, wrong;
} comparison;

static void compare(void *user, const ecgfed_beat *beat)
{
    comparison *result = user;
    const ecgfed_golden_beats *expected = result->expected;
    const int32_t i = result->beats++;
    if (i < expected->count) {
        const float difference = beat->probability - expected->probability[i];
        const int32_t label = expected->label[i];
        const int32_t same = beat->sample == expected->sample[i] && (label < 0 || beat->label == label);
        result->wrong += !(same && (label < 0 || (difference < TOLERANCE && difference > -TOLERANCE)));
    }
}

int32_t ecgfed_golden(ecgfed_state *state)
{
    const ecgfed_golden_beats expected = {ECGFED_GOLDEN_BEATS, ecgfed_golden_sample, ecgfed_golden_label,
                                          ecgfed_golden_probability};
    return ecgfed_golden_compare(state, &expected);
}

int32_t ecgfed_golden_compare(ecgfed_state *state, const ecgfed_golden_beats *expected)
{
    comparison result = {expected, 0, 0};
    ecgfed_init(state, compare, &result);
    for (int32_t at = 0, chunk = 1; at < ECGFED_GOLDEN_SAMPLES; chunk = chunk % 97 + 1) {
        float mv[97];
        int32_t count = 0;
        for (; count < chunk && at < ECGFED_GOLDEN_SAMPLES; count++) {
            mv[count] = (float)ecgfed_golden_uv[at++] / 1000.0f;
        }
        ecgfed_push(state, mv, (size_t)count);
    }
    ecgfed_finish(state);
    if (result.beats > expected->count) {
        return result.wrong + result.beats - expected->count;
    }
    return result.wrong + expected->count - result.beats;
}
