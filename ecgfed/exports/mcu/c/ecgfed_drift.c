/* ecgfed: counts of the first beats beside those of the last ones (ecgfed/exports/device/drift.py). */
#include "ecgfed_build.h"

#include "ecgfed_drift.h"

#include <math.h>
#include <string.h>

#include "ecgfed_net.h"

#define EACH 4
#define QRS_START 75
#define QRS_STOP 136
#define MOST_UV 32767.0
#define SILENCE_SAMPLES 21600.0 /* a minute */
#define SIZE_BOUND 1.9
#define END 0.5

static const double bounds[ECGFED_DRIFT_REASONS - 1] = {0.2, 0.65, 0.65, 0.2, SIZE_BOUND - 1.0, 0.5};

void ecgfed_drift_init(ecgfed_drift *drift)
{
    (void)memset(drift, 0, sizeof *drift);
}

void ecgfed_drift_measure(const float *window_mv, ecgfed_drift_beat *beat)
{
    int32_t low = 0, high = 0;
    for (int32_t i = 0; i < ECGFED_DRIFT_SHAPE_POINTS; i++) {
        int32_t sum = 0;
        for (int32_t j = EACH * i; j < EACH * (i + 1); j++) {
            const double wide_uv = (double)window_mv[j] * 1000.0;
            const double uv = wide_uv > MOST_UV ? MOST_UV : wide_uv >= -MOST_UV ? wide_uv : -MOST_UV; /* NAN is low */
            const int32_t whole = (int32_t)lrint(uv);
            sum += whole;
            if (j >= QRS_START && j < QRS_STOP) {
                low = j == QRS_START || whole < low ? whole : low;
                high = j == QRS_START || whole > high ? whole : high;
            }
        }
        beat->shape_uv[i] = (int16_t)(sum >= 0 ? sum / EACH : -((EACH - 1 - sum) / EACH)); /* rounded down */
    }
    beat->size_uv = high - low;
}

/* Add a beat, or remove it with `times` -1. */
static void add(ecgfed_drift_counts *counts, const ecgfed_drift_beat *beat, int32_t times)
{
    counts->beats += times;
    if (beat->poor || beat->label >= ECGFED_MAX_CLASSES) {
        return;
    }
    counts->good += times;
    counts->uncertain += times * beat->uncertain;
    counts->far += times * beat->far;
    counts->label[beat->label] += times;
    counts->size_uv[beat->label] += times * beat->size_uv;
    for (int32_t i = 0; i < ECGFED_DRIFT_SHAPE_POINTS; i++) {
        counts->shape_uv[beat->label][i] += times * beat->shape_uv[i];
    }
}

static double share(int32_t part, int32_t total)
{
    return total ? (double)part / (double)total : 0.0;
}

/* Sum of products of two sums of shapes, each less its mean, times 64 for each. */
static double product(const int32_t *a, const int32_t *b)
{
    const int64_t points = ECGFED_DRIFT_SHAPE_POINTS;
    int64_t a_total = 0, b_total = 0;
    double sum = 0.0;
    for (int32_t i = 0; i < ECGFED_DRIFT_SHAPE_POINTS; i++) {
        a_total += a[i];
        b_total += b[i];
    }
    for (int32_t i = 0; i < ECGFED_DRIFT_SHAPE_POINTS; i++) {
        sum += (double)(points * a[i] - a_total) * (double)(points * b[i] - b_total);
    }
    return sum;
}

/* Change of the mean beat of the commonest class of the first beats: shape and size. */
static void compare_usual_beats(const ecgfed_drift *drift, double *shape, double *size)
{
    const ecgfed_drift_counts *first = &drift->first, *now = &drift->now;
    int32_t usual = 0;
    double times, spread;
    for (int32_t i = 1; i < ECGFED_MAX_CLASSES; i++) {
        usual = first->label[i] > first->label[usual] ? i : usual;
    }
    if (now->label[usual] * 4 < ECGFED_DRIFT_LAST || first->size_uv[usual] == 0 || now->size_uv[usual] == 0) {
        return;
    }
    times = (double)(now->size_uv[usual] * first->label[usual]) / (double)(first->size_uv[usual] * now->label[usual]);
    spread = sqrt(product(first->shape_uv[usual], first->shape_uv[usual]) *
                  product(now->shape_uv[usual], now->shape_uv[usual]));
    *shape = 1.0 - product(first->shape_uv[usual], now->shape_uv[usual]) / (spread > 1e-9 ? spread : 1e-9);
    *size = (times > 1.0 / times ? times : 1.0 / times) - 1.0;
}

void ecgfed_drift_values(const ecgfed_drift *drift, double values[ECGFED_DRIFT_REASONS - 1])
{
    const ecgfed_drift_counts *first = &drift->first, *now = &drift->now;
    for (int32_t i = 0; i < ECGFED_DRIFT_REASONS - 1; i++) {
        values[i] = 0.0;
    }
    if (first->good < ECGFED_DRIFT_FIRST || now->beats < ECGFED_DRIFT_LAST) {
        return;
    }
    values[5] = share(now->beats - now->good, now->beats) - share(first->beats - first->good, first->beats);
    if (now->good * 4 >= ECGFED_DRIFT_LAST) {
        int32_t distance = 0;
        for (int32_t i = 0; i < ECGFED_MAX_CLASSES; i++) {
            const int32_t apart = now->label[i] * first->good - first->label[i] * now->good;
            distance += apart < 0 ? -apart : apart;
        }
        values[0] = share(now->far, now->good) - share(first->far, first->good);
        values[1] = share(now->uncertain, now->good) - share(first->uncertain, first->good);
        values[2] = share(distance, 2 * now->good * first->good);
        compare_usual_beats(drift, values + 3, values + 4);
    }
    for (int32_t i = 0; i < ECGFED_DRIFT_REASONS - 1; i++) {
        values[i] /= bounds[i];
    }
}

static void set(ecgfed_drift *drift, int32_t reason, double value)
{
    const uint32_t bit = 1U << (uint32_t)reason;
    if (drift->active & bit) {
        drift->active &= value < END ? ~bit : ~0U;
    } else if (value > 1.0) {
        drift->active |= bit;
        drift->began[reason]++;
    } else {
        /* no change */
    }
}

void ecgfed_drift_add(ecgfed_drift *drift, const ecgfed_drift_beat *beat)
{
    double values[ECGFED_DRIFT_REASONS - 1];
    ecgfed_drift_beat *oldest = drift->last + drift->newest;
    if (drift->first.good < ECGFED_DRIFT_FIRST) {
        add(&drift->first, beat, 1);
    }
    if (drift->now.beats == ECGFED_DRIFT_LAST) {
        add(&drift->now, oldest, -1);
    }
    add(&drift->now, beat, 1);
    *oldest = *beat;
    drift->newest = drift->newest + 1 == ECGFED_DRIFT_LAST ? 0 : drift->newest + 1;
    ecgfed_drift_values(drift, values);
    for (int32_t i = 0; i < ECGFED_DRIFT_REASONS - 1; i++) {
        set(drift, i, values[i]);
    }
}

void ecgfed_drift_quiet(ecgfed_drift *drift, int64_t samples)
{
    set(drift, ECGFED_DRIFT_REASONS - 1, (double)samples / SILENCE_SAMPLES);
}
