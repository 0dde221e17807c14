/* ecgfed: what the detector's networks are shown, and what they answer (ecgfed.domain.signal.qrs_features, qrs_net). */
#ifndef ECGFED_QRS_NET_H
#define ECGFED_QRS_NET_H

#include "ecgfed_qrs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Levels of a second: level, median, highest, lowest fifth, level over thirty seconds, the second's own highest. */
typedef struct {
    float value[6];
} ecgfed_level;

/* Log2 by straight lines between the powers of two, as everywhere in the detector. */
float ecgfed_logarithm(float ratio);
/* A feature as a whole multiple of 1/128, at most 4 in size. */
int16_t ecgfed_whole(float feature);

/* First network: fill candidate->score, form, ratio and mixed; at lies at block_at in the work's traces. */
void ecgfed_first_look(ecgfed_candidate *candidate, int32_t in_block, const ecgfed_level *level, ecgfed_qrs_work *work);
/* Second network: the log odds, times 32768, of candidate number `which` of `all`. */
int32_t ecgfed_second_look(const ecgfed_candidate *all, int32_t count, int32_t which, ecgfed_qrs_work *work);
/* Third network: how likely an extremum is the R peak; shape and envelope stand at the extremum. */
int32_t ecgfed_peak_score(const float *shape, const float *envelope, float own, int32_t offset, float height,
                          float highest, ecgfed_qrs_work *work);

#ifdef __cplusplus
}
#endif

#endif
