/* ecgfed: what the detector and the announcements of R peaks share. */
#ifndef ECGFED_QRS_PARTS_H
#define ECGFED_QRS_PARTS_H

#include "ecgfed_qrs_net.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ECGFED_CANDIDATE_SPACING 18    /* half the shortest distance of two candidates */
#define ECGFED_LOWEST 0.04f
#define ECGFED_REFRACTORY 28           /* 0.14 s at 200 Hz */
#define ECGFED_RELATIVE_REFRACTORY 37  /* 0.185 s, if one of the two beats is weak */
#define ECGFED_WEAK_SCORE 16384        /* half of 2^15, which is log odds of 1 */
#define ECGFED_SAME_PEAK_X10 234       /* ten times 0.065 s at 360 Hz */

/* Envelope of `count` samples starting with `from`: mean absolute slope over 85 ms. */
void ecgfed_qrs_envelope(const ecgfed_qrs *qrs, int32_t from, int32_t count, float *out);
/* Baseline removed, smoothed over 30 ms. */
void ecgfed_qrs_shape(const ecgfed_qrs *qrs, int32_t from, int32_t count, float *out);
/* Compute the missing highest and median envelopes of the seconds up to a 200 Hz sample. */
void ecgfed_qrs_measure(ecgfed_qrs *qrs, int32_t stop, ecgfed_qrs_work *work);
/* Levels of a second, over the last ten and thirty seconds; at the start, over the first four. */
void ecgfed_qrs_level(const ecgfed_qrs *qrs, int32_t block, ecgfed_level *level);
/* Factor of the envelope for the candidate search; 0 if the lead has no signal. */
float ecgfed_qrs_scale(const ecgfed_level *level);
/* Fill a candidate at `in_block` of a block, whose envelope and shape are in `work`; 0 if the first network rejects it. */
int32_t ecgfed_qrs_evaluate(ecgfed_candidate *added, int32_t block, int32_t in_block, const ecgfed_level *level,
                            ecgfed_qrs_work *work);
/* Return whether a beat is more than the noise of asystole or of a disconnected lead; store its size. */
int32_t ecgfed_qrs_is_strong(ecgfed_qrs *qrs, const ecgfed_candidate *beat, ecgfed_qrs_work *work);
/* Return the R peak of a beat in samples at 360 Hz: the most likely extremum, refined to the highest sample near it. */
int64_t ecgfed_qrs_r_peak(const ecgfed_qrs *qrs, const ecgfed_qrs_caller *caller, const ecgfed_candidate *beat);

#ifdef __cplusplus
}
#endif

#endif
