/* ecgfed: watches a recording beside its classification: quality, pacing and drift, for a phone or a wearable with 100 kB
 * of memory to spare.
 *
 *     static ecgfed_monitor monitor;
 *     ecgfed_init(&state, on_beat, NULL);
 *     ecgfed_monitor_attach(&monitor, &state, on_watched, NULL);  // before the first sample
 *     ecgfed_push(&state, samples_mv, count);
 *     ecgfed_finish(&state);
 *     ecgfed_monitor_finish(&monitor);                            // after ecgfed_finish
 *
 * on_beat is called as without it; on_watched once the quality of the beat's window is known, at most 13 s after its R
 * peak.
 */
#ifndef ECGFED_MONITOR_H
#define ECGFED_MONITOR_H

#include "ecgfed.h"
#include "ecgfed_drift.h"
#include "ecgfed_pacing.h"
#include "ecgfed_quality.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ECGFED_WATCHED 96 /* beats that may wait for their quality: 7 a second */
#define ECGFED_MONITOR_VERSION 1
#define ECGFED_MONITOR_COUNTS (2 + ECGFED_REASONS + 3 + ECGFED_DRIFT_REASONS)
#define ECGFED_MONITOR_BYTES (ECGFED_COUNTERS_BYTES + 8 + 8 * ECGFED_MONITOR_COUNTS)

/* What is known of a beat in the end. */
typedef struct {
    int64_t sample;       /* as in ecgfed_beat, as are the next four */
    int32_t label, uncertain, far, unclassified;
    uint32_t reasons;     /* why its window is of poor quality: bits of ecgfed_quality.h, 0 if it is good */
    float paced;          /* probability that it follows a pacing spike, or ECGFED_PACING_NOT_ASSESSED */
} ecgfed_watched_beat;

typedef void (*ecgfed_on_watched)(void *user, const ecgfed_watched_beat *beat);

typedef struct {
    ecgfed_watched_beat beat;
    ecgfed_drift_beat counted;
} ecgfed_waiting_beat;

/* State, owned by the caller. `drift`, `pacing` and the counts may be read between two calls. */
typedef struct {
    ecgfed_state *state;
    ecgfed_on_beat on_beat; /* the caller's own */
    void *on_beat_user;
    ecgfed_on_watched on_watched;
    void *user;
    ecgfed_quality quality;
    ecgfed_drift drift;
    ecgfed_pacing pacing;
    ecgfed_waiting_beat waiting[ECGFED_WATCHED];
    int32_t first, count;
    ecgfed_watched_beat late; /* the beat that waits for the next R peak, as far as it is judged */
    int32_t has_late;
    uint64_t watched, poor;           /* beats with known quality; those of poor quality */
    uint64_t reason[ECGFED_REASONS];  /* beats by reason, in the order of the bits */
} ecgfed_monitor;

/* Watch a state: after ecgfed_init and ecgfed_set_rails, before the first sample. `on_watched` may be NULL. */
void ecgfed_monitor_attach(ecgfed_monitor *monitor, ecgfed_state *state, ecgfed_on_watched on_watched, void *user);
/* Report the last beats, after ecgfed_finish. */
void ecgfed_monitor_finish(ecgfed_monitor *monitor);
/* Write the counters of the state, and then those of the monitor: version, number of bytes, present changes, and 1 if the
 * recording is paced (16 bits each); then 64 bits each: beats with known quality, poor ones, those by reason, beats whose
 * pacing was assessed, clearly paced ones, runs of them, and how often each change has begun. All little endian. */
void ecgfed_monitor_write(const ecgfed_monitor *monitor, uint8_t bytes[ECGFED_MONITOR_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
