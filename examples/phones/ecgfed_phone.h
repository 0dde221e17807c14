/* ecgfed on a phone: the exported C sources behind one pointer, as Kotlin (JNI) and Swift call them.
 *
 * Research use only, not for diagnosis. One pointer serves one recording and one thread at a time.
 */
#ifndef ECGFED_PHONE_H
#define ECGFED_PHONE_H

#include <stddef.h>
#include <stdint.h>

typedef struct ecgfed_phone ecgfed_phone;

/* A beat, given twice: once classified, and within 13 s of its R peak once watched. */
typedef struct {
    int64_t sample;       /* of the R peak, at the device's own sampling frequency */
    int32_t watched;      /* 0: as it is classified; 1: with `reasons` and `paced`, which are 0 and -1 before */
    int32_t label;        /* number of the class, one past the last for an unclassified beat */
    float probability;    /* of the class; 0 if unclassified, or once watched */
    int32_t uncertain;    /* 1: probability below the calibrated threshold, unlike any training beat, or unclassified */
    int32_t far;          /* 1: unlike any training beat */
    int32_t unclassified; /* 0, or why it has no class: ecgfed.h */
    int32_t reasons;      /* why the signal is poor, as bits: gap, flat, rail, spike, noise, baseline */
    float paced;          /* probability that it follows a pacing spike, -1 if not assessed */
} ecgfed_phone_beat;

/* Begin a recording. `rail_mv` is the converter's limit, 0 if unknown. NULL without memory. */
ecgfed_phone *ecgfed_phone_create(float rail_mv);
void ecgfed_phone_destroy(ecgfed_phone *phone);
/* Take samples in millivolt at the rate of the export (`--fs`), NAN where none was recorded. */
void ecgfed_phone_push(ecgfed_phone *phone, const float *mv, size_t count);
/* End the recording. */
void ecgfed_phone_finish(ecgfed_phone *phone);
/* Take the next beat that has been given; 0 if there is none. */
int32_t ecgfed_phone_next(ecgfed_phone *phone, ecgfed_phone_beat *beat);
/* The block of counts: its length, and its bytes (ecgfed_monitor.h). */
size_t ecgfed_phone_counters_bytes(void);
void ecgfed_phone_counters(const ecgfed_phone *phone, uint8_t *bytes);
/* The name of a class, also of "unclassified"; NULL beyond. */
const char *ecgfed_phone_class(int32_t label);
/* Samples a second that are expected. */
int32_t ecgfed_phone_rate(void);

#endif
