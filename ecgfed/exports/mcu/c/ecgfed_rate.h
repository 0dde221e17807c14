/* ecgfed: resamples from the device's rate, ECGFED_DEVICE_HZ, to 360 Hz.
 *
 * A polyphase linear-phase filter (Kaiser, ten samples of the slower rate on each side), as Python resamples a filtered
 * signal. At a device rate of 360 Hz samples pass unchanged.
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
    int32_t lost;                           /* missing samples in a row, at most the length of the history */
    int32_t lag;                            /* of the next output behind the newest sample, in phases */
} ecgfed_rate;

/* Begin; call ecgfed_init for `state` first. */
void ecgfed_rate_init(ecgfed_rate *rate, ecgfed_state *state);
/* Process samples in millivolt at ECGFED_DEVICE_HZ, NAN if missing. */
void ecgfed_rate_push(ecgfed_rate *rate, const float *mv, size_t count);
/* End the recording, and that of the state. */
void ecgfed_rate_finish(ecgfed_rate *rate);
/* The device's sample nearest to a sample at 360 Hz, such as an R peak. */
int64_t ecgfed_rate_sample(int64_t at_360_hz);

#ifdef __cplusplus
}
#endif

#endif
