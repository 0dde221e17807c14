/* ecgfed: RR features of version 4, which compare a beat with the patient's own beats before it
 * (ecgfed.domain.beats.past; docs/bundle-format.md, "RR features, version 4").
 */
#ifndef ECGFED_CONTEXT_H
#define ECGFED_CONTEXT_H

#include <stdint.h>

#include "ecgfed_net.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ECGFED_INTERVALS 128      /* intervals whose quantiles are references */
#define ECGFED_CHANGES 60         /* changes of the interval whose median is the irregularity */
#define ECGFED_LONGEST_INTERVAL 720 /* samples; a longer interval is void */
#define ECGFED_HIDES 54           /* samples that are lost in a row, from which on an interval is void */
#define ECGFED_QRS_SAMPLES 61
#define ECGFED_P_SAMPLES 62
#define ECGFED_SHAPE_NUMBERS (ECGFED_QRS_SAMPLES + ECGFED_P_SAMPLES + 3)

/* The last intervals, in samples, in the order in which they came and by size; 0 where void. */
typedef struct {
    uint16_t ring[ECGFED_INTERVALS];
    uint16_t sorted[ECGFED_INTERVALS];
    int32_t next, count;
} ecgfed_intervals;

/* Weighted sums of the numbers of some beats: QRS, P region and its power, logarithms of size and width. */
typedef struct {
    float total[ECGFED_SHAPE_NUMBERS];
    float weight;
    int32_t count; /* of the beats, up to the fewest that make a reference */
} ecgfed_shape_mean;

typedef struct {
    ecgfed_intervals every, between; /* all; those between two beats of the patient's own shape */
    float change[ECGFED_CHANGES], sorted_change[ECGFED_CHANGES]; /* NAN where void, which is not in the second */
    int32_t next_change, changes;
    ecgfed_shape_mean draft, own;    /* beats after long intervals; those of them of the own shape, after sinus intervals */
    float log_before, log_before_that; /* logarithms of the last two intervals, NAN where void */
    float log_sinus, log_last;       /* what the interval after the last beat is compared with */
    int32_t was_similar;
} ecgfed_context;

void ecgfed_context_begin(ecgfed_context *context);

/* Take the next beat, and write its features as if nothing followed.
 *
 *   window_mv   256 samples in millivolt, filtered, not normalised
 *   interval    samples since the R peak before; 0 where void
 *   usable      0 where the window is padded or shows no signal somewhere, and makes no reference
 *   scratch     256 floats
 *   features    ECGFED_CONTEXT_FEATURES floats
 */
void ecgfed_context_beat(ecgfed_context *context, const float *window_mv, int32_t interval, int32_t usable,
                         float *scratch, float *features);

/* Write the features that the interval after the last beat decides, in samples, 0 where void. */
void ecgfed_context_next(const ecgfed_context *context, int32_t interval, float *features);

#ifdef __cplusplus
}
#endif

#endif
