/* ecgfed: the self-test's recording, pushed in chunks of changing length. */
#include "ecgfed_build.h"

#include "ecgfed_golden.h"

#include "golden.h"

/* An activation near the middle between two int8 steps may round differently on another machine. */
#define TOLERANCE 0.02f

typedef struct {
    int32_t beats, wrong;
} comparison;

static void compare(void *user, const ecgfed_beat *beat)
{
    comparison *result = user;
    const int32_t i = result->beats++;
    if (i < ECGFED_GOLDEN_BEATS) {
        const float difference = beat->probability - ecgfed_golden_probability[i];
        const int32_t label = ecgfed_golden_label[i];
        const int32_t same = beat->sample == ecgfed_golden_sample[i] && (label < 0 || beat->label == label);
        result->wrong += !(same && (label < 0 || (difference < TOLERANCE && difference > -TOLERANCE)));
    }
}

int32_t ecgfed_golden(ecgfed_state *state)
{
    comparison result = {0, 0};
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
    if (result.beats > ECGFED_GOLDEN_BEATS) {
        return result.wrong + result.beats - ECGFED_GOLDEN_BEATS;
    }
    return result.wrong + ECGFED_GOLDEN_BEATS - result.beats;
}
