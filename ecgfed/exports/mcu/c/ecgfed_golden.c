/* ecgfed: the self-test's recording, pushed in chunks of changing length. */
#include "ecgfed_golden.h"

#include "golden.h"

/* An activation may lie so near the middle of two int8 steps that two machines round it apart. */
#define TOLERANCE 0.02f

typedef struct {
    int32_t beats, wrong;
} found;

static void compare(void *user, const ecgfed_beat *beat)
{
    found *so_far = user;
    const int32_t i = so_far->beats++;
    if (i < ECGFED_GOLDEN_BEATS) {
        const float apart = beat->probability - ecgfed_golden_probability[i];
        const int32_t label = ecgfed_golden_label[i];
        const int32_t same = beat->sample == ecgfed_golden_sample[i] && (label < 0 || beat->label == label);
        so_far->wrong += !(same && (label < 0 || (apart < TOLERANCE && apart > -TOLERANCE)));
    }
}

int32_t ecgfed_golden(ecgfed_state *state)
{
    found so_far = {0, 0};
    ecgfed_init(state, compare, &so_far);
    for (int32_t at = 0, chunk = 1; at < ECGFED_GOLDEN_SAMPLES; chunk = chunk % 97 + 1) {
        float mv[97];
        int32_t count = 0;
        for (; count < chunk && at < ECGFED_GOLDEN_SAMPLES; count++) {
            mv[count] = (float)ecgfed_golden_uv[at++] / 1000.0f;
        }
        ecgfed_push(state, mv, (size_t)count);
    }
    ecgfed_finish(state);
    if (so_far.beats > ECGFED_GOLDEN_BEATS) {
        return so_far.wrong + so_far.beats - ECGFED_GOLDEN_BEATS;
    }
    return so_far.wrong + ECGFED_GOLDEN_BEATS - so_far.beats;
}
