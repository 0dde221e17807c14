/* ecgfed: whether a beat's window shows anything of the heart (ecgfed.domain.beats.extract.without_signal). */
#ifndef ECGFED_SIGNAL_H
#define ECGFED_SIGNAL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The samples around an R peak, at 360 Hz. */
typedef struct {
    const int32_t *ring;  /* twice the integer microvolts, plus one if the sample was missing */
    int32_t count;        /* samples in the ring */
    int32_t peak;         /* index of the R peak */
    int32_t gap_before;   /* 1 if samples are missing before the first of the ring, */
    int32_t gap_after;    /* or after the last */
    int32_t low_uv, high_uv; /* a sample at or beyond them is saturated */
} ecgfed_surroundings;

/* Return 1 if no class can be read from a window (256 samples, mV): it moves by no more than 10 microvolts; half of it,
 * or of the QRS, was missing, saturated or flat; or the lead was saturated for 0.3 s within 0.1 s of the R peak. */
int32_t ecgfed_without_signal(const ecgfed_surroundings *around, const float *window_mv);

/* Return 1 if some sample of the window was missing, saturated or flat, so that it makes no reference. */
int32_t ecgfed_hides_signal(const ecgfed_surroundings *around);

/* Return 1 if `least` samples or more in a row were missing or saturated in the `interval` samples before the R peak. */
int32_t ecgfed_hides_beat(const ecgfed_surroundings *around, int32_t interval, int32_t least);

#ifdef __cplusplus
}
#endif

#endif
