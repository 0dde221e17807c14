/* ecgfed: inputs and outputs of the networks of the detector (ecgfed.domain.signal.qrs_features, qrs_net). */
#ifndef ECGFED_QRS_NET_H
#define ECGFED_QRS_NET_H

#include "ecgfed_qrs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Levels of a second: level, median, highest, lowest fifth, level over thirty seconds, highest of the second itself. */
typedef struct {
    float value[6];
} ecgfed_level;

/* Piecewise linear log2 between the powers of two, as everywhere in the detector. */
float ecgfed_logarithm(float ratio);
/* Round a feature to a multiple of 1/128, clipped to 4 in magnitude. */
int16_t ecgfed_rounded(float feature);

/* First network: fill candidate->score, form, ratio and mixed; `in_block` is the candidate's sample in the block. */
void ecgfed_first_look(ecgfed_candidate *candidate, int32_t in_block, const ecgfed_level *level, ecgfed_qrs_work *work);
/* Second network: the log odds, times 32768, of candidate number `which` of `all`. */
int32_t ecgfed_second_look(const ecgfed_candidate *all, int32_t count, int32_t which, ecgfed_qrs_work *work);
/* Third network: score of an extremum as the R peak; shape and envelope point to the extremum, `reference` is the
 * envelope of the beat. */
int32_t ecgfed_peak_score(const float *shape, const float *envelope, float reference, int32_t offset, float height,
                          float highest, ecgfed_qrs_work *work);

#ifdef __cplusplus
}
#endif

#endif
