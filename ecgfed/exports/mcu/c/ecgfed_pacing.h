/* ecgfed: whether a beat follows a pacing spike (docs/quality.md, "Pacing in the signal"). */
#ifndef ECGFED_PACING_H
#define ECGFED_PACING_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ECGFED_PACING_BEFORE 80 /* samples at 360 Hz before and after an R peak that are looked at */
#define ECGFED_PACING_AFTER 51
#define ECGFED_PACING_SAMPLES (ECGFED_PACING_BEFORE + 1 + ECGFED_PACING_AFTER)
#define ECGFED_PACING_NOT_ASSESSED (-1.0f)
#define ECGFED_PACED 0.5f         /* a beat of a paced record is paced above the first, any beat clearly above the second */
#define ECGFED_CLEARLY_PACED 0.9f
#define ECGFED_PACING_RUN 10      /* so many clearly paced beats in a row are intermittent pacing */

/* What the beats of a recording so far say. */
typedef struct {
    uint64_t assessed, clear; /* beats; those that are clearly paced */
    uint64_t runs;            /* of ECGFED_PACING_RUN and more clearly paced beats */
    int32_t run;              /* clearly paced beats in a row, up to ECGFED_PACING_RUN */
} ecgfed_pacing;

/* Return the probability that a beat follows a pacing spike, from ECGFED_PACING_SAMPLES of the lead as recorded, in
 * millivolt; ECGFED_PACING_NOT_ASSESSED for less than 0.05 mV. */
float ecgfed_pacing_score(const float *mv);
/* Take the score of the next beat. */
void ecgfed_pacing_add(ecgfed_pacing *pacing, float score);
/* Return whether the recording so far is paced: more than 30% of ten or more assessed beats are clearly paced. */
int32_t ecgfed_is_paced(const ecgfed_pacing *pacing);

#ifdef __cplusplus
}
#endif

#endif
