/* ecgfed: the self-test: a synthetic recording and the output of Python for it. */
#ifndef ECGFED_GOLDEN_H
#define ECGFED_GOLDEN_H

#include "ecgfed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Beats that a model answers of the golden recording. */
typedef struct {
    int32_t count;
    const int32_t *sample;
    const int16_t *label; /* -1 where two classes are nearly as likely */
    const float *probability;
} ecgfed_golden_beats;

/* Process the golden recording with the caller's state; return the number of beats that differ from Python's, including
 * missing and extra ones. The state is initialised first; call ecgfed_init again afterwards. */
int32_t ecgfed_golden(ecgfed_state *state);
/* The same with the expected beats of another model (ecgfed_image.h). */
int32_t ecgfed_golden_compare(ecgfed_state *state, const ecgfed_golden_beats *expected);

#ifdef __cplusplus
}
#endif

#endif
