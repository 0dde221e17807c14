/* ecgfed: a lead in blocks of 50 ms: its baseline, noise and jumps (ecgfed/domain/signal/quality.py). */
#include "ecgfed_build.h"

#include "ecgfed_quality_blocks.h"

#include <math.h>
#include <string.h>

#include "ecgfed_monitor_taps.h"

#define BLOCK ECGFED_QUALITY_BLOCK
#define UNIT_BLOCKS (ECGFED_QUALITY_UNIT / BLOCK)
#define NOISE_MV 0.020f
#define NOISE_SHARE 0.04f
#define NOISE_REST_SHARE 0.45f
#define HUM_SHARE 0.5f
#define HUM_STEPS 0.7167358990f /* of a wave of 42 Hz: 2 sin(pi 42 / 360) */
#define NOISE_BLOCKS 40
#define BASELINE_BLOCKS 20
#define JUMP_MV 1.0f
#define JUMP_BLOCKS 10
#define REACH (NOISE_BLOCKS + 8) /* blocks beside the judged unit whose noise is needed */

int32_t ecgfed_quality_blocks(const ecgfed_quality *quality)
{
    return (quality->count + BLOCK - 1) / BLOCK;
}

void ecgfed_sort(float *values, int32_t count)
{
    for (int32_t i = 1; i < count; i++) {
        const float value = values[i];
        int32_t j = i;
        for (; j > 0 && values[j - 1] > value; j--) {
            values[j] = values[j - 1];
        }
        values[j] = value;
    }
}

/* Value of a block; beyond the ends they are mirrored, the last one twice. */
static float mirrored(const float *values, int32_t count, int32_t at)
{
    const int32_t inside = at < 0 ? -1 - at : at >= count ? 2 * count - 1 - at : at;
    return values[at_least(at_most(inside, count - 1), 0)];
}

/* Median of the `width` blocks around one, of an even number the larger middle one. */
static float median_at(const float *values, int32_t count, int32_t at, int32_t width)
{
    float sorted[NOISE_BLOCKS];
    for (int32_t i = 0; i < width; i++) {
        sorted[i] = mirrored(values, count, at - width / 2 + i);
    }
    ecgfed_sort(sorted, width);
    return sorted[width / 2];
}

static int32_t is_median_above(const float *values, int32_t count, int32_t at, float limit)
{
    int32_t above = 0;
    for (int32_t i = 0; i < NOISE_BLOCKS; i++) {
        above += mirrored(values, count, at - NOISE_BLOCKS / 2 + i) > limit;
    }
    return above >= NOISE_BLOCKS - NOISE_BLOCKS / 2;
}

void ecgfed_find_baseline(ecgfed_quality *quality)
{
    const int32_t blocks = ecgfed_quality_blocks(quality);
    for (int32_t b = 0; b < blocks; b++) {
        float sorted[BLOCK];
        (void)memcpy(sorted, quality->mv + b * BLOCK, sizeof sorted);
        ecgfed_sort(sorted, BLOCK);
        quality->value[b] = (sorted[BLOCK / 2 - 1] + sorted[BLOCK / 2]) / 2.0f;
    }
    for (int32_t b = 0; b < blocks; b++) {
        quality->baseline[b] = median_at(quality->value, blocks, b, BASELINE_BLOCKS);
    }
}

/* Root mean square of a block's samples between 15 and 40 Hz. */
static float power_of(const ecgfed_quality *quality, int32_t block)
{
    float sum = 0.0f;
    const float *mv = quality->mv;
    for (int32_t i = block * BLOCK; i < (block + 1) * BLOCK; i++) {
        const int32_t last = quality->count - 1, at = at_most(i, last);
        float band = ecgfed_noise_taps[0] * mv[at];
        for (int32_t k = 1; k <= ECGFED_NOISE_HALF; k++) {
            band += ecgfed_noise_taps[k] * (mv[at_least(at - k, 0)] + mv[at_most(at + k, last)]);
        }
        sum += band * band;
    }
    return sqrtf(sum / (float)BLOCK);
}

static float spread_of(const float *mv)
{
    float mean = 0.0f, sum = 0.0f;
    for (int32_t i = 0; i < BLOCK; i++) {
        mean += mv[i] - mv[0];
    }
    mean = mv[0] + mean / (float)BLOCK;
    for (int32_t i = 0; i < BLOCK; i++) {
        sum += (mv[i] - mean) * (mv[i] - mean);
    }
    return sqrtf(sum / (float)BLOCK);
}

static float steps_of(const float *mv)
{
    float sum = 0.0f;
    for (int32_t i = 1; i < BLOCK; i++) {
        sum += (mv[i] - mv[i - 1]) * (mv[i] - mv[i - 1]);
    }
    return sqrtf(sum / (float)(BLOCK - 1));
}

static float height_at(const ecgfed_quality *quality, int32_t block)
{
    return quality->height[block / UNIT_BLOCKS];
}

/* Flag noisy blocks from `low` to `high`: noise that is there between the beats, and does not rest. */
static void flag_beside_beats(ecgfed_quality *quality, int32_t low, int32_t high)
{
    const int32_t blocks = ecgfed_quality_blocks(quality), first = at_least(low - REACH, 0), stop = at_most(high + REACH, blocks);
    float *power = quality->value, *lowest = quality->other;
    for (int32_t b = first; b < stop; b++) {
        power[b] = power_of(quality, b);
    }
    for (int32_t b = first; b < stop; b++) { /* of three blocks */
        const float before = power[at_least(b - 1, first)], after = power[at_most(b + 1, stop - 1)];
        const float less = before < power[b] ? before : power[b];
        lowest[b] = less < after ? less : after;
    }
    for (int32_t b = low; b < high; b++) {
        const float limit = higher(NOISE_MV, NOISE_SHARE * height_at(quality, b));
        if (is_median_above(power, blocks, b, limit) &&
            is_median_above(lowest, blocks, b, NOISE_REST_SHARE * limit)) {
            quality->flag[b] = 1;
        }
    }
}

/* Flag blocks from `low` to `high` that show nothing but waves above 42 Hz. */
static void flag_hum(ecgfed_quality *quality, int32_t low, int32_t high)
{
    const int32_t blocks = ecgfed_quality_blocks(quality), first = at_least(low - REACH, 0), stop = at_most(high + REACH, blocks);
    float *spread = quality->value, *steps = quality->other;
    for (int32_t b = first; b < stop; b++) {
        spread[b] = spread_of(quality->mv + b * BLOCK);
        steps[b] = steps_of(quality->mv + b * BLOCK);
    }
    for (int32_t b = low; b < high; b++) {
        if (is_median_above(spread, blocks, b, higher(NOISE_MV, HUM_SHARE * height_at(quality, b))) &&
            is_median_above(steps, blocks, b, HUM_STEPS * median_at(spread, blocks, b, NOISE_BLOCKS))) {
            quality->flag[b] = 1;
        }
    }
}

void ecgfed_flag_noise(ecgfed_quality *quality, int32_t low, int32_t high)
{
    (void)memset(quality->flag, 0, sizeof quality->flag);
    flag_beside_beats(quality, low, high);
    flag_hum(quality, low, high);
}

void ecgfed_flag_jumps(ecgfed_quality *quality)
{
    const int32_t blocks = ecgfed_quality_blocks(quality);
    const float *baseline = quality->baseline;
    (void)memset(quality->flag, 0, sizeof quality->flag);
    for (int32_t b = 0; b + JUMP_BLOCKS < blocks; b++) {
        const int32_t next = b + JUMP_BLOCKS;
        const float before = baseline[b] - baseline[at_least(b - JUMP_BLOCKS, 0)];
        const float after = baseline[at_most(next + JUMP_BLOCKS, blocks - 1)] - baseline[next];
        const float moved = baseline[next] - baseline[b] - (before + after) / 2.0f;
        if (fabsf(moved) > higher(JUMP_MV, height_at(quality, next))) {
            (void)memset(quality->flag + b, 1, JUMP_BLOCKS + 1);
        }
    }
}
