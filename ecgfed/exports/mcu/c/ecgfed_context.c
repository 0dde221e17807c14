/* ecgfed: a beat among the patient's own beats before it. */
#include "ecgfed_build.h"

#include "ecgfed_context.h"

#include <math.h>
#include <string.h>

#define FEWEST 3
#define DECAY 0.9f           /* weight of a beat of a mean relative to the next beat of that mean */
#define LOG_UNIT 0.2f
#define LEAST_MV 0.02f
#define LEAST_POWER 1e-12f
#define AT_LEAST 0.999999f   /* intervals that are no equal are further apart */
#define MIN_CORRELATION 0.7f
#define FEATURE_LIMIT 5.0f
#define PREMATURE 0.25f      /* 0.05 in units of LOG_UNIT */
#define IRREGULAR 0.050f
#define IRREGULAR_WIDTH 0.0125f
#define LEAST_CHANGE 0.005f
#define LIKE_FROM 0.88f
#define LIKE_WIDTH 0.08f
#define STEEP 0.15f
#define SLOPES 115           /* sums of five differences of 120 samples */
#define P_FIRST 10
#define QRS_FIRST 75
#define DURATION_FIRST 50
/* Places in ecgfed_shape_mean.total. */
#define P_PLACE ECGFED_QRS_SAMPLES
#define POWER_PLACE (P_PLACE + ECGFED_P_SAMPLES)
#define SIZE_PLACE (POWER_PLACE + 1)
#define WIDTH_PLACE (POWER_PLACE + 2)

/* What is measured of a beat; `window` is over the size of the QRS, and its P region less its mean. */
typedef struct {
    const float *window;
    float log_size, log_width, p_power;
    int32_t usable;
} shape;

/* A beat beside a reference, NAN where there is none. */
typedef struct {
    float qrs_unlike, qrs_apart, size, width, p_lost;
    int32_t is_void;
} comparison;

void ecgfed_context_begin(ecgfed_context *context)
{
    (void)memset(context, 0, sizeof *context);
    for (int32_t i = 0; i < ECGFED_CHANGES; i++) {
        context->change[i] = NAN;
    }
    context->log_before = NAN;
    context->log_before_that = NAN;
    context->log_sinus = NAN;
    context->log_last = NAN;
}

static void remember(ecgfed_intervals *intervals, int32_t samples)
{
    const uint16_t gone = intervals->ring[intervals->next], value = (uint16_t)samples;
    uint16_t *sorted = intervals->sorted;
    int32_t at = 0;
    if (gone > 0U) {
        while (sorted[at] != gone) {
            at++;
        }
        intervals->count--;
        for (; at < intervals->count; at++) {
            sorted[at] = sorted[at + 1];
        }
    }
    if (value > 0U) {
        for (at = intervals->count; at > 0 && sorted[at - 1] > value; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = value;
        intervals->count++;
    }
    intervals->ring[intervals->next] = value;
    intervals->next = (intervals->next + 1) % ECGFED_INTERVALS;
}

/* Return a quantile in samples, its share in tenths; NAN where there are too few intervals. */
static float quantile(const ecgfed_intervals *intervals, int32_t tenths)
{
    const int32_t at = tenths * (intervals->count - 1), low = at / 10;
    float value;
    if (intervals->count < FEWEST) {
        return NAN;
    }
    value = (float)intervals->sorted[low];
    if (at % 10 != 0) {
        value += ((float)intervals->sorted[low + 1] - value) * (float)(at % 10) / 10.0f;
    }
    return value;
}

static float smaller_known(float a, float b)
{
    return a != a ? b : b != b ? a : a < b ? a : b;
}

/* Return the median of the last changes of the interval, this one included; 0 where they are too few. */
static float irregularity(ecgfed_context *context, float change)
{
    const float gone = context->change[context->next_change];
    float *sorted = context->sorted_change;
    int32_t at = 0;
    if (gone == gone) { /* it is no NAN */
        while (sorted[at] < gone) {
            at++;
        }
        context->changes--;
        for (; at < context->changes; at++) {
            sorted[at] = sorted[at + 1];
        }
    }
    if (change == change) {
        for (at = context->changes; at > 0 && sorted[at - 1] > change; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = change;
        context->changes++;
    }
    context->change[context->next_change] = change;
    context->next_change = (context->next_change + 1) % ECGFED_CHANGES;
    if (context->changes < FEWEST) {
        return 0.0f;
    }
    at = (context->changes - 1) / 2;
    return context->changes % 2 != 0 ? sorted[at] : (sorted[at] + sorted[at + 1]) / 2.0f;
}

/* Sort the samples of a window. */
static void sort(float *values)
{
    static const int32_t gaps[5] = {57, 23, 10, 4, 1};
    for (int32_t g = 0; g < 5; g++) {
        for (int32_t i = gaps[g]; i < ECGFED_WINDOW; i++) {
            const float value = values[i];
            int32_t j = i;
            for (; j >= gaps[g] && values[j - gaps[g]] > value; j -= gaps[g]) {
                values[j] = values[j - gaps[g]];
            }
            values[j] = value;
        }
    }
}

static float slope(const float *samples, int32_t first)
{
    float sum = 0.0f;
    for (int32_t i = first; i < first + 5; i++) {
        sum += fabsf(samples[i + 1] - samples[i]);
    }
    return sum;
}

/* Return the duration of the QRS in samples: from the first to the last steep slope. */
static float duration(const float *window)
{
    const float *samples = window + DURATION_FIRST;
    float steepest = 0.0f;
    int32_t first = 0, last = SLOPES - 1;
    for (int32_t i = 0; i < SLOPES; i++) {
        const float steep = slope(samples, i);
        steepest = steep > steepest ? steep : steepest;
    }
    steepest *= STEEP;
    while (first < SLOPES - 1 && slope(samples, first) <= steepest) {
        first++;
    }
    while (last > 0 && slope(samples, last) <= steepest) {
        last--;
    }
    if (last < first) { /* a still window */
        return (float)(SLOPES - 1);
    }
    return last > first ? (float)(last - first) : 1.0f;
}

/* Measure a beat; its window is written to `scratch` as the shape has it. */
static shape measure(const float *window_mv, int32_t usable, float *scratch)
{
    float middle, power = 0.0f, mean = 0.0f, size;
    shape beat;
    (void)memcpy(scratch, window_mv, ECGFED_WINDOW * sizeof *scratch);
    sort(scratch);
    middle = (scratch[ECGFED_WINDOW / 2 - 1] + scratch[ECGFED_WINDOW / 2]) / 2.0f;
    for (int32_t i = 0; i < ECGFED_WINDOW; i++) {
        scratch[i] = window_mv[i] - middle;
    }
    for (int32_t i = QRS_FIRST; i < QRS_FIRST + ECGFED_QRS_SAMPLES; i++) {
        power += scratch[i] * scratch[i];
    }
    size = sqrtf(power / (float)ECGFED_QRS_SAMPLES);
    beat.usable = usable != 0 && size > LEAST_MV;
    size = size > LEAST_MV ? size : LEAST_MV;
    beat.log_size = logf(size);
    beat.log_width = logf(duration(scratch));
    for (int32_t i = 0; i < ECGFED_WINDOW; i++) {
        scratch[i] /= size;
    }
    for (int32_t i = P_FIRST; i < P_FIRST + ECGFED_P_SAMPLES; i++) {
        mean += scratch[i];
    }
    mean /= (float)ECGFED_P_SAMPLES;
    beat.p_power = 0.0f;
    for (int32_t i = P_FIRST; i < P_FIRST + ECGFED_P_SAMPLES; i++) {
        scratch[i] -= mean;
        beat.p_power += scratch[i] * scratch[i];
    }
    beat.window = scratch;
    return beat;
}

static void add_to(ecgfed_shape_mean *mean, const shape *beat)
{
    for (int32_t i = 0; i < ECGFED_QRS_SAMPLES; i++) {
        mean->total[i] = DECAY * mean->total[i] + beat->window[QRS_FIRST + i];
    }
    for (int32_t i = 0; i < ECGFED_P_SAMPLES; i++) {
        mean->total[P_PLACE + i] = DECAY * mean->total[P_PLACE + i] + beat->window[P_FIRST + i];
    }
    mean->total[POWER_PLACE] = DECAY * mean->total[POWER_PLACE] + beat->p_power;
    mean->total[SIZE_PLACE] = DECAY * mean->total[SIZE_PLACE] + beat->log_size;
    mean->total[WIDTH_PLACE] = DECAY * mean->total[WIDTH_PLACE] + beat->log_width;
    mean->weight = DECAY * mean->weight + 1.0f;
    mean->count += mean->count < FEWEST ? 1 : 0;
}

static float correlation(const float *a, const float *b, int32_t count)
{
    float mean_a = 0.0f, mean_b = 0.0f, aa = 0.0f, bb = 0.0f, ab = 0.0f, power;
    for (int32_t i = 0; i < count; i++) {
        mean_a += a[i];
        mean_b += b[i];
    }
    mean_a /= (float)count;
    mean_b /= (float)count;
    for (int32_t i = 0; i < count; i++) {
        const float x = a[i] - mean_a, y = b[i] - mean_b;
        aa += x * x;
        bb += y * y;
        ab += x * y;
    }
    power = aa * bb;
    return ab / sqrtf(power > LEAST_POWER ? power : LEAST_POWER);
}

/* Compare a beat with a reference; sums stand for the mean where only proportions count. */
static comparison compare(const shape *beat, const ecgfed_shape_mean *mean)
{
    const float *qrs = beat->window + QRS_FIRST, *p_region = beat->window + P_FIRST, *p_total = mean->total + P_PLACE;
    comparison result = {NAN, NAN, NAN, NAN, NAN, 1};
    float apart = 0.0f, common = 0.0f;
    if (mean->count < FEWEST) {
        return result;
    }
    for (int32_t i = 0; i < ECGFED_QRS_SAMPLES; i++) {
        const float difference = qrs[i] - mean->total[i] / mean->weight;
        apart += difference * difference;
    }
    for (int32_t i = 0; i < ECGFED_P_SAMPLES; i++) {
        const float part = p_total[i] / mean->weight;
        common += part * part;
    }
    common /= mean->total[POWER_PLACE] / mean->weight;
    common = common > 1.0f ? 1.0f : common; /* NAN of a still P region stays */
    result.qrs_unlike = 2.0f * (1.0f - correlation(qrs, mean->total, ECGFED_QRS_SAMPLES));
    result.qrs_apart = sqrtf(apart / (float)ECGFED_QRS_SAMPLES);
    result.p_lost = common * (1.0f - correlation(p_region, p_total, ECGFED_P_SAMPLES));
    result.size = (beat->log_size - mean->total[SIZE_PLACE] / mean->weight) / (2.0f * LOG_UNIT);
    result.width = (beat->log_width - mean->total[WIDTH_PLACE] / mean->weight) / (2.0f * LOG_UNIT);
    result.is_void = 0;
    return result;
}

/* Limit a feature; what is not finite is 0. */
static float limited(float value)
{
    if (value - value != 0.0f) {
        return 0.0f;
    }
    return value > FEATURE_LIMIT ? FEATURE_LIMIT : value < -FEATURE_LIMIT ? -FEATURE_LIMIT : value;
}

/* Write the features of a beat's shape, and of how early it comes where its rhythm is regular. */
static void write_shape(const comparison *of, float early, float change, float *features)
{
    const float regular = 1.0f / (1.0f + expf((change - IRREGULAR) / IRREGULAR_WIDTH));
    float like = (1.0f - of->qrs_unlike / 2.0f - LIKE_FROM) / LIKE_WIDTH;
    like = like < 0.0f ? 0.0f : like > 1.0f ? 1.0f : like; /* NAN stays */
    features[4] = limited(of->qrs_unlike);
    features[5] = limited(of->qrs_apart);
    features[6] = limited(of->size);
    features[7] = limited(of->width);
    features[8] = limited(of->p_lost);
    features[9] = limited(early * regular * like);
    features[10] = limited(early * regular * like * of->p_lost);
    features[11] = limited(early * (1.0f - like));
    features[15] = of->is_void != 0 ? 1.0f : 0.0f;
}

void ecgfed_context_beat(ecgfed_context *context, const float *window_mv, int32_t interval, int32_t usable,
                         float *scratch, float *features)
{
    const float before = interval > 0 ? (float)interval : NAN, log_before = logf(before);
    const float every = quantile(&context->every, 5);
    const shape beat = measure(window_mv, usable, scratch);
    const int32_t has_draft = context->draft.count >= FEWEST;
    const int32_t is_similar = beat.usable && has_draft &&
        correlation(scratch + QRS_FIRST, context->draft.total, ECGFED_QRS_SAMPLES) > MIN_CORRELATION;
    const int32_t between = is_similar && context->was_similar;
    float typical = quantile(&context->between, 5), sinus = quantile(&context->between, 9), change, early;
    comparison result;
    typical = typical == typical ? typical : every;
    sinus = sinus == sinus ? sinus : typical;
    result = compare(&beat, context->own.count >= FEWEST ? &context->own : &context->draft);
    change = smaller_known(fabsf(log_before - context->log_before), fabsf(log_before - context->log_before_that));
    change = irregularity(context, change);
    context->log_sinus = logf(sinus);
    context->log_last = log_before;
    early = (log_before - context->log_sinus) / LOG_UNIT + PREMATURE;
    early = early > 0.0f ? 0.0f : early; /* NAN stays */
    features[0] = limited((log_before - logf(typical)) / LOG_UNIT);
    features[3] = limited(logf((change > LEAST_CHANGE ? change : LEAST_CHANGE) / IRREGULAR));
    features[12] = interval > 0 ? 0.0f : 1.0f;
    features[14] = typical == typical ? 0.0f : 1.0f;
    write_shape(&result, early, change, features);
    ecgfed_context_next(context, 0, features);
    if (beat.usable && before >= every * AT_LEAST) {
        add_to(&context->draft, &beat);
    }
    if (between && before >= sinus * AT_LEAST) {
        add_to(&context->own, &beat);
    }
    remember(&context->every, interval);
    remember(&context->between, between ? interval : 0);
    context->log_before_that = context->log_before;
    context->log_before = log_before;
    context->was_similar = is_similar;
}

void ecgfed_context_next(const ecgfed_context *context, int32_t interval, float *features)
{
    const float log_next = interval > 0 ? logf((float)interval) : NAN;
    features[1] = limited((log_next - context->log_sinus) / LOG_UNIT);
    features[2] = limited((log_next - context->log_last) / LOG_UNIT);
    features[13] = interval > 0 ? 0.0f : 1.0f;
}
