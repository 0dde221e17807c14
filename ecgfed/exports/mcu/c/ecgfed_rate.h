/* ecgfed: samples at the device's own rate, ECGFED_DEVICE_HZ, brought to the 360 a second that everything else takes.
 *
 * A linear-phase filter by phases (Kaiser, ten samples of the slower rate on each side), as Python resamples a filtered
 * signal. Where the device's rate is 360, samples go through as they are.
 */
#ifndef ECGFED_RATE_H
#define ECGFED_RATE_H

#include "ecgfed.h"
#include "ecgfed_rate_taps.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    ecgfed_state *state;
    float history[ECGFED_RATE_HISTORY];     /* the last samples, the newest at `newest` */
    uint8_t missing[ECGFED_RATE_HISTORY];
    int32_t newest;
    int32_t lost;                           /* missing samples in a row, at most the history's length */
    int32_t lag;                            /* of the next output behind the newest sample, in steps of the phases */
} ecgfed_rate;

/* Begin: `state` has been begun by ecgfed_init. */
void ecgfed_rate_init(ecgfed_rate *rate, ecgfed_state *state);
/* Take samples in millivolt at ECGFED_DEVICE_HZ, NAN where none was recorded. */
void ecgfed_rate_push(ecgfed_rate *rate, const float *mv, size_t count);
/* End the recording, and with it the state's. */
void ecgfed_rate_finish(ecgfed_rate *rate);
/* The device's sample that lies nearest to a sample at 360 Hz: of a beat's R peak, say. */
int64_t ecgfed_rate_sample(int64_t at_360_hz);

#ifdef __cplusplus
}
#endif

#endif
