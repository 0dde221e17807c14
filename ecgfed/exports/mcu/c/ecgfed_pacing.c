/* ecgfed: features of the samples around an R peak that tell a pacing spike from a QRS, and their logistic regression
 * (ecgfed/domain/signal/pacing_features.py, pacing.py). */
#include "ecgfed_build.h"

#include "ecgfed_pacing.h"

#include <math.h>

#include "ecgfed_monitor_taps.h"

#define GRID 61       /* samples at 250 Hz, the R peak is number GRID_R */
#define GRID_R 40
#define GRID_STEP 36  /* of a sample at 250 and at 360 Hz, in 1/9000 s */
#define SAMPLE_STEP 25
#define EDGE 5
#define OWN 3
#define REST 6
#define CLEAR 5
#define LEVEL_SAMPLES 12
#define QRS_FROM 5
#define QRS_UNTIL 15
#define QRS_SAMPLES 8
#define LEAST_MV 0.05f
#define LEAST 1e-3f
#define WIDTH_SHARE 0.3f

/* A window at 250 Hz, of height 1. */
typedef struct {
    float wave[GRID], high[GRID], deviation[GRID]; /* itself, its part above 45 Hz, its distance from its first level */
    int32_t at; /* the sample of the transient */
} beat_wave;

static float higher(float a, float b)
{
    return a > b ? a : b;
}

static float height_of(const float *values, int32_t count, float *lowest)
{
    float low = values[0], high = values[0];
    for (int32_t i = 1; i < count; i++) {
        low = values[i] < low ? values[i] : low;
        high = higher(high, values[i]);
    }
    *lowest = low;
    return high - low;
}

/* Low-pass and resample to 250 Hz. */
static void resample(const float *mv, float *wave)
{
    for (int32_t k = 0; k < GRID; k++) {
        float sum = 0.0f, weights = 0.0f;
        for (int32_t i = 0; i < ECGFED_PACING_SAMPLES; i++) {
            const int32_t apart = GRID_STEP * (k - GRID_R) - SAMPLE_STEP * (i - ECGFED_PACING_BEFORE);
            const int32_t distance = apart < 0 ? -apart : apart;
            if (distance < ECGFED_PACING_REACH) {
                sum += ecgfed_pacing_kernel[distance] * mv[i];
                weights += ecgfed_pacing_kernel[distance];
            }
        }
        wave[k] = sum / weights;
    }
}

/* Compute the part above 45 Hz, and where it is highest over 12 ms. */
static void find_transient(beat_wave *beat)
{
    float highest = -1.0f;
    for (int32_t i = 0; i < GRID; i++) {
        float sum = 0.0f;
        for (int32_t k = -ECGFED_PACING_HALF; k <= ECGFED_PACING_HALF; k++) {
            const int32_t from = i + k < 0 ? 0 : i + k >= GRID ? GRID - 1 : i + k;
            sum += ecgfed_pacing_taps[k < 0 ? -k : k] * beat->wave[from];
        }
        beat->high[i] = sum;
    }
    for (int32_t i = EDGE + 1; i < GRID - EDGE - 1; i++) {
        const float energy = beat->high[i - 1] * beat->high[i - 1] + beat->high[i] * beat->high[i] +
                             beat->high[i + 1] * beat->high[i + 1];
        if (energy > highest) {
            highest = energy;
            beat->at = i;
        }
    }
}

static void find_deviation(beat_wave *beat)
{
    float sorted[LEVEL_SAMPLES] = {0}, level;
    for (int32_t i = 0; i < LEVEL_SAMPLES; i++) {
        int32_t j = i;
        for (; j > 0 && sorted[j - 1] > beat->wave[i]; j--) {
            sorted[j] = sorted[j - 1];
        }
        sorted[j] = beat->wave[i];
    }
    level = (sorted[LEVEL_SAMPLES / 2 - 1] + sorted[LEVEL_SAMPLES / 2]) / 2.0f;
    for (int32_t i = 0; i < GRID; i++) {
        beat->deviation[i] = fabsf(beat->wave[i] - level);
    }
}

static float root_mean(float sum, int32_t count)
{
    return sqrtf(sum / (float)(count > 1 ? count : 1));
}

/* Return the log odds of a pacing spike. */
static float odds_of(const beat_wave *beat)
{
    const float *wave = beat->wave, *high = beat->high;
    const int32_t at = beat->at;
    float total = 0.0f, own = 0.0f, highest = 0.0f, slopes = 0.0f, steepest = 0.0f, slopes_before = 0.0f;
    float energy_before = 0.0f, sharp = 0.0f, elsewhere = 0.0f, tallest = 0.0f, odds = ECGFED_PACING_INTERCEPT;
    float feature[ECGFED_PACING_FEATURES];
    int32_t wide = 0;
    for (int32_t i = 0; i < GRID; i++) {
        const int32_t away = i < at ? at - i : i - at, before = i < at - CLEAR;
        const float energy = high[i] * high[i], slope = i ? fabsf(wave[i] - wave[i - 1]) : 0.0f;
        const float curvature = i && i < GRID - 1 ? fabsf(wave[i + 1] - 2.0f * wave[i] + wave[i - 1]) : 0.0f;
        total += energy;
        own += away <= OWN ? energy : 0.0f;
        highest = away <= OWN ? higher(highest, fabsf(high[i])) : highest;
        sharp = away <= OWN ? higher(sharp, curvature) : sharp;
        elsewhere = away > REST ? higher(elsewhere, curvature) : elsewhere;
        slopes += slope * slope;
        steepest = higher(steepest, slope);
        slopes_before += before ? slope * slope : 0.0f;
        energy_before += before ? energy : 0.0f;
        tallest = higher(tallest, beat->deviation[i]);
    }
    for (int32_t i = 0; i < GRID; i++) {
        wide += beat->deviation[i] > WIDTH_SHARE * tallest;
    }
    feature[0] = logf(total / slopes + LEAST * LEAST);
    feature[1] = logf(highest + LEAST);
    feature[2] = own / (total + LEAST * LEAST);
    feature[3] = (float)wide / (float)GRID;
    feature[4] = logf(root_mean(slopes_before, at - CLEAR - 1) / steepest + LEAST);
    feature[5] = logf(steepest);
    feature[6] = logf(root_mean(energy_before, at - CLEAR) / (highest + LEAST) + LEAST);
    feature[7] = fabsf(wave[at + CLEAR] - wave[at - CLEAR]);
    feature[8] = logf((sharp + LEAST) / (elsewhere + LEAST));
    for (int32_t i = 0; i < ECGFED_PACING_FEATURES; i++) {
        odds += ecgfed_pacing_weights[i] * feature[i];
    }
    return odds;
}

/* Return whether a wave behind the transient lasts as a QRS captured by a pacing spike does. */
static int32_t is_captured(const beat_wave *beat)
{
    const int32_t at = beat->at, left = GRID - at - 2, until = left < QRS_UNTIL ? left : QRS_UNTIL;
    float height = 0.0f, before = 0.0f;
    int32_t last = 0, inside = 0;
    for (int32_t i = 0; i < at - CLEAR; i++) {
        before += beat->deviation[i];
    }
    for (int32_t i = at + QRS_FROM; i < GRID; i++) {
        height = higher(height, beat->deviation[i]);
    }
    for (int32_t i = at + QRS_FROM; i < GRID; i++) {
        if (beat->deviation[i] > WIDTH_SHARE * height) {
            last = i - at;
            inside++;
        }
    }
    return height >= higher(0.15f, 6.0f * before / (float)(at - CLEAR)) && last >= until && inside >= QRS_SAMPLES;
}

/* Return whether nearly all samples lie at one of two levels, and a tenth or more at each, as of a calibration pulse. */
static int32_t is_rectangular(const float *mv, float low, float height)
{
    int32_t at_low = 0, at_high = 0;
    for (int32_t i = 0; i < ECGFED_PACING_SAMPLES; i++) {
        at_low += mv[i] <= low + 0.1f * height;
        at_high += mv[i] >= low + height - 0.1f * height;
    }
    return height >= LEAST_MV && 10 * at_low >= ECGFED_PACING_SAMPLES && 10 * at_high >= ECGFED_PACING_SAMPLES &&
           100 * (at_low + at_high) >= 93 * ECGFED_PACING_SAMPLES;
}

float ecgfed_pacing_score(const float *mv)
{
    beat_wave beat;
    float low, score, height = height_of(mv, ECGFED_PACING_SAMPLES, &low);
    if (is_rectangular(mv, low, height)) {
        return 0.0f;
    }
    resample(mv, beat.wave);
    height = height_of(beat.wave, GRID, &low);
    if (!(height >= LEAST_MV)) {
        return ECGFED_PACING_NOT_ASSESSED;
    }
    for (int32_t i = 0; i < GRID; i++) {
        beat.wave[i] /= height;
    }
    find_transient(&beat);
    find_deviation(&beat);
    score = 1.0f / (1.0f + expf(-odds_of(&beat)));
    return score > ECGFED_CLEARLY_PACED && !is_captured(&beat) ? ECGFED_CLEARLY_PACED : score;
}

void ecgfed_pacing_add(ecgfed_pacing *pacing, float score)
{
    const int32_t clear = score > ECGFED_CLEARLY_PACED;
    pacing->assessed += score >= 0.0f ? 1U : 0U;
    pacing->clear += clear ? 1U : 0U;
    pacing->run = !clear ? 0 : pacing->run <= ECGFED_PACING_RUN ? pacing->run + 1 : pacing->run;
    pacing->runs += pacing->run == ECGFED_PACING_RUN ? 1U : 0U;
}

int32_t ecgfed_is_paced(const ecgfed_pacing *pacing)
{
    return pacing->assessed >= 10U && 10U * pacing->clear > 3U * pacing->assessed;
}
