/* ecgfed: features and the three small fixed-point networks of the R peak detector. */
#include "ecgfed_build.h"

#include "ecgfed_qrs_net.h"

#include <math.h>
#include <string.h>

#include "ecgfed_qrs_weights.h"

#define UNIT 128.0f
#define BEFORE 4
#define AFTER 4
#define BEATS_BEFORE 3
#define BEATS_AFTER 2
#define NEIGHBOURS (BEFORE + AFTER + BEATS_BEFORE + BEATS_AFTER)
#define EACH 5
#define MEMORY (12 * ECGFED_RATE_HZ)
#define BLOCKS_AHEAD 2
#define SCORE_LIMIT (8 * 32768)

/* Round to the nearest integer, halves to even, for magnitudes below 2^22: as rintf, without a call. */
static float nearest(float value)
{
    return (value + 12582912.0f) - 12582912.0f;
}

int16_t ecgfed_rounded(float feature)
{
    float value = feature * UNIT;
    if (value > 4.0f * UNIT) {
        value = 4.0f * UNIT;
    }
    if (value < -4.0f * UNIT) {
        value = -4.0f * UNIT;
    }
    return (int16_t)nearest(value);
}

float ecgfed_logarithm(float ratio)
{
    int exponent = 0;
    float mantissa = frexpf(ratio, &exponent);
    return (float)(exponent - 2) + 2.0f * mantissa;
}

/* sums = weights * inputs + bias; no sum reaches 2^24. */
static void layer(const int16_t *in, int32_t inputs, const int16_t *weights, const int32_t *bias, int32_t outputs,
                  int32_t *sums)
{
    for (int32_t o = 0; o < outputs; o++) {
        const int16_t *row = weights + o * inputs;
        int32_t sum = bias[o];
        for (int32_t i = 0; i < inputs; i++) {
            sum += (int32_t)row[i] * in[i];
        }
        sums[o] = sum;
    }
}

/* Activations in units of 1/128, from 0 to 8. */
static void relu(const int32_t *sums, int32_t count, int16_t *out)
{
    for (int32_t i = 0; i < count; i++) {
        int32_t value = sums[i] > 0 ? sums[i] / 256 : 0;
        out[i] = (int16_t)(value > 1024 ? 1024 : value);
    }
}

/* Three layers, the last with one output. */
static int32_t three(const int16_t *in, int32_t inputs, const int16_t *const weights[3], const int32_t *const bias[3],
                     int32_t first, int32_t second, int16_t *mixed, ecgfed_qrs_work *work)
{
    int32_t sum;
    layer(in, inputs, weights[0], bias[0], first, work->sums);
    relu(work->sums, first, work->hidden);
    layer(work->hidden, first, weights[1], bias[1], second, work->sums);
    relu(work->sums, second, mixed);
    layer(mixed, second, weights[2], bias[2], 1, &sum);
    return sum;
}

/* Offsets of the features of a lead, in samples from the candidate. */
static int32_t shape_at(int32_t i)
{
    return i < 11 ? -120 + 8 * i : i < 42 ? -30 + 2 * (i - 11) : 33 + 8 * (i - 42);
}

static int32_t envelope_at(int32_t i)
{
    return i < 18 ? -330 + 15 * i : i < 39 ? -60 + 6 * (i - 18) : 66 + 12 * (i - 39);
}

void ecgfed_first_look(ecgfed_candidate *candidate, int32_t in_block, const ecgfed_level *level, ecgfed_qrs_work *work)
{
    static const int16_t *const weights[3] = {ecgfed_qrs_lead, ecgfed_qrs_mix, ecgfed_qrs_first};
    static const int32_t *const bias[3] = {ecgfed_qrs_lead_bias, ecgfed_qrs_mix_bias, ecgfed_qrs_first_bias};
    const float *shape = work->shape + 120 + in_block;
    const float *envelope = work->envelope + 330 + in_block;
    const float reference = candidate->envelope;
    int16_t *in = work->in;
    for (int32_t i = 0; i < 53; i++) {
        in[i] = ecgfed_rounded(shape[shape_at(i)] / (4.0f * reference));
    }
    for (int32_t i = 0; i < 51; i++) {
        const float around = envelope[envelope_at(i)];
        in[53 + i] = ecgfed_rounded(around / (around + reference));
    }
    for (int32_t i = 0; i < ECGFED_LEVELS; i++) {
        const float level_uv = level->value[i] > 1.0f ? level->value[i] : 1.0f;
        in[104 + i] = ecgfed_rounded(ecgfed_logarithm(reference / level_uv) / 2.0f);
    }
    in[109] = ecgfed_rounded(ecgfed_logarithm(reference / 100.0f) / 4.0f);
    (void)memcpy(candidate->form, in + 16, sizeof candidate->form);
    (void)memcpy(candidate->ratio, in + 104, sizeof candidate->ratio);
    candidate->score = three(in, 110, weights, bias, 56, 24, candidate->mixed, work);
}

/* Index of the k-th neighbour of a candidate, -1 for none: four before, four after, three beats before, two after. */
static int32_t neighbour(const ecgfed_candidate *all, int32_t count, int32_t which, int32_t k)
{
    int32_t step, remaining, index = which;
    if (k < BEFORE) {
        return which - 1 - k;
    }
    if (k < BEFORE + AFTER) {
        index = which + 1 + k - BEFORE;
        return index < count ? index : -1;
    }
    k -= BEFORE + AFTER;
    step = k < BEATS_BEFORE ? -1 : 1;
    remaining = k < BEATS_BEFORE ? k : k - BEATS_BEFORE;
    for (index += step; index >= 0 && index < count; index += step) {
        if (all[index].score > 0 && remaining-- == 0) {
            return index;
        }
    }
    return -1;
}

static int32_t product(const int16_t *a, const int16_t *b)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < ECGFED_FORM; i++) {
        sum += (int32_t)a[i] * b[i];
    }
    return sum;
}

static float power(const ecgfed_candidate *candidate)
{
    const int32_t sum = product(candidate->form, candidate->form);
    return (float)(sum > 1 ? sum : 1);
}

static float clipped_score(int32_t score)
{
    const int32_t clipped = score > SCORE_LIMIT ? SCORE_LIMIT : score < -SCORE_LIMIT ? -SCORE_LIMIT : score;
    return (float)clipped / 32768.0f / 4.0f;
}

int32_t ecgfed_second_look(const ecgfed_candidate *all, int32_t count, int32_t which, ecgfed_qrs_work *work)
{
    static const int16_t *const weights[3] = {ecgfed_qrs_around, ecgfed_qrs_tie, ecgfed_qrs_beat};
    static const int32_t *const bias[3] = {ecgfed_qrs_around_bias, ecgfed_qrs_tie_bias, ecgfed_qrs_beat_bias};
    const ecgfed_candidate *current = all + which;
    int16_t *in = work->in, mixed[ECGFED_MIXED];
    (void)memset(in, 0, NEIGHBOURS * EACH * sizeof *in);
    for (int32_t k = 0; k < NEIGHBOURS; k++) {
        const int32_t index = neighbour(all, count, which, k);
        const ecgfed_candidate *nearby = all + (index < 0 ? which : index);
        int32_t distance;
        if (index < 0 || current->at - nearby->at > MEMORY ||
            nearby->at / ECGFED_BLOCK > current->at / ECGFED_BLOCK + BLOCKS_AHEAD) {
            continue; /* no such neighbour: zeros */
        }
        distance = nearby->at > current->at ? nearby->at - current->at : current->at - nearby->at;
        in[k * EACH] = 128;
        in[k * EACH + 1] = ecgfed_rounded(clipped_score(nearby->score));
        in[k * EACH + 2] = ecgfed_rounded(ecgfed_logarithm((float)distance / 100.0f));
        in[k * EACH + 3] = ecgfed_rounded(ecgfed_logarithm(nearby->envelope / current->envelope) / 2.0f);
        in[k * EACH + 4] =
            ecgfed_rounded((float)product(nearby->form, current->form) / sqrtf(power(nearby) * power(current)));
    }
    in[NEIGHBOURS * EACH] = ecgfed_rounded(clipped_score(current->score));
    (void)memcpy(in + NEIGHBOURS * EACH + 1, current->ratio, sizeof current->ratio);
    (void)memcpy(in + NEIGHBOURS * EACH + 1 + ECGFED_LEVELS, current->mixed, sizeof current->mixed);
    return three(in, NEIGHBOURS * EACH + 1 + ECGFED_LEVELS + ECGFED_MIXED, weights, bias, 64, 24, mixed, work);
}

int32_t ecgfed_peak_score(const float *shape, const float *envelope, float reference, int32_t offset, float height,
                          float highest, ecgfed_qrs_work *work)
{
    static const int16_t *const weights[3] = {ecgfed_qrs_place, ecgfed_qrs_near, ecgfed_qrs_pick};
    static const int32_t *const bias[3] = {ecgfed_qrs_place_bias, ecgfed_qrs_near_bias, ecgfed_qrs_pick_bias};
    int16_t *in = work->in, mixed[16];
    for (int32_t i = 0; i < 37; i++) {
        const int32_t at = i < 6 ? -60 + 6 * i : i < 31 ? -24 + 2 * (i - 6) : 30 + 6 * (i - 31);
        in[i] = ecgfed_rounded(shape[at] / (4.0f * reference));
    }
    for (int32_t i = 0; i < 11; i++) {
        const float around = envelope[-30 + 6 * i];
        in[37 + i] = ecgfed_rounded(around / (around + reference));
    }
    in[48] = ecgfed_rounded((float)offset / 20.0f);
    in[49] = ecgfed_rounded((height > 0.0f ? height : 0.0f) / (highest > 1.0f ? highest : 1.0f));
    return three(in, 50, weights, bias, 32, 16, mixed, work);
}
