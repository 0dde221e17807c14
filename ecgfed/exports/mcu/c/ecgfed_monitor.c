/* ecgfed: quality, pacing and drift beside the classification of a recording. */
#include "ecgfed_build.h"

#include "ecgfed_monitor.h"

#include <string.h>

#define DETECTED_WITHIN 2160 /* samples: an R peak is known 6 s later at most */
#define STEP 90              /* samples between two looks at the time without beats */

/* Report the oldest beat that waits. */
static void release(ecgfed_monitor *monitor)
{
    ecgfed_waiting_beat *one = monitor->waiting + monitor->first;
    monitor->first = monitor->first + 1 == ECGFED_WATCHED ? 0 : monitor->first + 1;
    monitor->count--;
    monitor->watched++;
    monitor->poor += one->beat.reasons ? 1U : 0U;
    for (uint32_t i = 0; i < ECGFED_REASONS; i++) {
        monitor->reason[i] += one->beat.reasons >> i & 1U;
    }
    ecgfed_pacing_add(&monitor->pacing, one->beat.paced);
    one->counted.poor = one->beat.reasons != 0U;
    ecgfed_drift_add(&monitor->drift, &one->counted);
    if (monitor->on_watched) {
        monitor->on_watched(monitor->user, &one->beat);
    }
}

/* Score the samples around an R peak, where they are still in the buffer of the quality. */
static float score_of(const ecgfed_quality *quality, int64_t peak)
{
    float mv[ECGFED_PACING_SAMPLES];
    const int64_t first = peak - ECGFED_PACING_BEFORE - quality->start;
    if (first < 0 || first + ECGFED_PACING_SAMPLES > quality->count) {
        return ECGFED_PACING_NOT_ASSESSED;
    }
    for (int32_t i = 0; i < ECGFED_PACING_SAMPLES; i++) {
        const int32_t uv = quality->uv[first + i];
        if (uv == ECGFED_QUALITY_MISSING) {
            return ECGFED_PACING_NOT_ASSESSED;
        }
        mv[i] = (float)uv / 1000.0f;
    }
    return ecgfed_pacing_score(mv);
}

/* Add the reasons of the samples that lie in a beat's window. */
static void add_reasons(ecgfed_watched_beat *beat, int64_t start, const uint8_t *reasons, int64_t stop)
{
    const int64_t first = beat->sample - ECGFED_R_INDEX, last = first + ECGFED_WINDOW;
    for (int64_t at = first > start ? first : start; at < last && at < stop; at++) {
        beat->reasons |= reasons[at - start];
    }
}

/* Begin the beat that waits for the next R peak, which may come when its samples have left the buffer. */
static void begin_late(ecgfed_monitor *monitor)
{
    const ecgfed_state *state = monitor->state;
    if (state->beats && (monitor->late.sample != state->pending[0].sample || !monitor->has_late)) {
        (void)memset(&monitor->late, 0, sizeof monitor->late);
        monitor->late.sample = state->pending[0].sample;
        monitor->has_late = 1;
        monitor->late.paced = score_of(&monitor->quality, monitor->late.sample);
    }
}

/* Take the reasons of samples, and report the beats whose windows end there. */
static void on_quality(void *user, int64_t start, const uint8_t *reasons, int32_t count)
{
    ecgfed_monitor *monitor = user;
    const int64_t stop = start + count;
    for (int32_t i = 0; i < monitor->count; i++) {
        add_reasons(&monitor->waiting[(monitor->first + i) % ECGFED_WATCHED].beat, start, reasons, stop);
    }
    begin_late(monitor);
    add_reasons(&monitor->late, start, reasons, stop);
    while (monitor->count && monitor->waiting[monitor->first].beat.sample - ECGFED_R_INDEX + ECGFED_WINDOW <= stop) {
        release(monitor);
    }
}

static void on_beat(void *user, const ecgfed_beat *beat)
{
    ecgfed_monitor *monitor = user;
    ecgfed_waiting_beat *one;
    if (monitor->count == ECGFED_WATCHED) { /* more than any heart's: the oldest is judged by what is known */
        release(monitor);
    }
    one = monitor->waiting + (monitor->first + monitor->count) % ECGFED_WATCHED;
    monitor->count++;
    (void)memset(one, 0, sizeof *one);
    if (monitor->has_late && monitor->late.sample == beat->sample) {
        one->beat = monitor->late;
    } else {
        one->beat.sample = beat->sample;
        one->beat.paced = score_of(&monitor->quality, beat->sample);
    }
    one->beat.label = beat->label;
    one->beat.uncertain = beat->uncertain;
    one->beat.far = beat->far;
    one->beat.unclassified = beat->unclassified;
    ecgfed_drift_measure(beat->window_mv, &one->counted);
    one->counted.label = (uint8_t)beat->label;
    one->counted.uncertain = (uint8_t)beat->uncertain;
    one->counted.far = (uint8_t)beat->far;
    if (monitor->on_beat) {
        monitor->on_beat(monitor->on_beat_user, beat);
    }
}

static void on_sample(void *user, int32_t uv, int32_t missing)
{
    ecgfed_monitor *monitor = user;
    const ecgfed_state *state = monitor->state;
    const int64_t last_peak = state->beats ? state->pending[0].sample : 0;
    ecgfed_quality_push(&monitor->quality, uv, missing);
    if (state->counters.samples % STEP == 0U) {
        const int64_t silent = (int64_t)state->counters.samples - last_peak - DETECTED_WITHIN;
        ecgfed_drift_quiet(&monitor->drift, silent > 0 ? silent : 0);
    }
}

void ecgfed_monitor_attach(ecgfed_monitor *monitor, ecgfed_state *state, ecgfed_on_watched on_watched, void *user)
{
    (void)memset(monitor, 0, sizeof *monitor);
    monitor->state = state;
    monitor->on_beat = state->on_beat;
    monitor->on_beat_user = state->user;
    monitor->on_watched = on_watched;
    monitor->user = user;
    ecgfed_quality_init(&monitor->quality, state->low_uv, state->high_uv, on_quality, monitor);
    ecgfed_drift_init(&monitor->drift);
    state->on_beat = on_beat;
    state->user = monitor;
    state->on_sample = on_sample;
}

void ecgfed_monitor_finish(ecgfed_monitor *monitor)
{
    ecgfed_quality_finish(&monitor->quality);
    while (monitor->count) { /* windows that end beyond the recording */
        release(monitor);
    }
}

void ecgfed_monitor_write(const ecgfed_monitor *monitor, uint8_t bytes[ECGFED_MONITOR_BYTES])
{
    const uint64_t pacing[3] = {monitor->pacing.assessed, monitor->pacing.clear, monitor->pacing.runs};
    uint8_t *at = bytes + ECGFED_COUNTERS_BYTES;
    ecgfed_counters_write(&monitor->state->counters, bytes);
    at = ecgfed_write_number(at, ECGFED_MONITOR_VERSION, 2);
    at = ecgfed_write_number(at, 8 + 8 * ECGFED_MONITOR_COUNTS, 2);
    at = ecgfed_write_number(at, monitor->drift.active, 2);
    at = ecgfed_write_number(at, (uint64_t)ecgfed_is_paced(&monitor->pacing), 2);
    at = ecgfed_write_number(at, monitor->watched, 8);
    at = ecgfed_write_number(at, monitor->poor, 8);
    for (int32_t i = 0; i < ECGFED_REASONS; i++) {
        at = ecgfed_write_number(at, monitor->reason[i], 8);
    }
    for (int32_t i = 0; i < 3; i++) {
        at = ecgfed_write_number(at, pacing[i], 8);
    }
    for (int32_t i = 0; i < ECGFED_DRIFT_REASONS; i++) {
        at = ecgfed_write_number(at, monitor->drift.began[i], 8);
    }
}
