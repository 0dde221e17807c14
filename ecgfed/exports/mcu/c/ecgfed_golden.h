/* ecgfed: the self-test. A made-up recording, and what Python makes of it. */
#ifndef ECGFED_GOLDEN_H
#define ECGFED_GOLDEN_H

#include "ecgfed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Run the golden recording through a state of the caller's; return how many beats differ from Python's, 0 where all is
 * well. Beats that are missing or too many count. The state is begun anew, and has to be again afterwards. */
int32_t ecgfed_golden(ecgfed_state *state);

#ifdef __cplusplus
}
#endif

#endif
