/* ecgfed: the self-test: a synthetic recording and the output of Python for it. */
#ifndef ECGFED_GOLDEN_H
#define ECGFED_GOLDEN_H

#include "ecgfed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Process the golden recording with the caller's state; return the number of beats that differ from Python's, including
 * missing and extra ones. The state is initialised first; call ecgfed_init again afterwards. */
int32_t ecgfed_golden(ecgfed_state *state);

#ifdef __cplusplus
}
#endif

#endif
