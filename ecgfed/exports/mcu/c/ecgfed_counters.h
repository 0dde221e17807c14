/* ecgfed: counts of a recording, which a phone can read. */
#ifndef ECGFED_COUNTERS_H
#define ECGFED_COUNTERS_H

#include <stdint.h>

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ECGFED_COUNTERS_VERSION 1
#define ECGFED_COUNTERS 12         /* counts before those of the classes */
#define ECGFED_COUNTERS_BYTES (8 + 8 * (ECGFED_COUNTERS + ECGFED_MAX_CLASSES))

/* Counts since ecgfed_init; samples are at 360 Hz. No count overflows: 64 bits last 1.6 billion years. */
typedef struct {
    uint64_t samples;     /* pushed, missing ones included */
    uint64_t missing;     /* not recorded, or not finite */
    uint64_t saturated;   /* at or beyond the limits of ecgfed_set_rails */
    uint64_t flat;        /* within 40 microvolts for three seconds */
    uint64_t stretches;   /* begun: the first, and one after each gap of more than ECGFED_BRIDGE samples */
    uint64_t beats;       /* answered: classified and unclassified ones */
    uint64_t no_logits;   /* unclassified because the inference failed */
    uint64_t no_signal;   /* unclassified because the window shows nothing of the heart */
    uint64_t uncertain;   /* classified with low confidence, those out of distribution included */
    uint64_t far;         /* classified, but out of distribution */
    uint64_t padded;      /* with a window that extends past an end of the recording, or into a gap */
    uint64_t last_beat;   /* sample number of the last beat answered, 0 without beats */
    uint64_t label[ECGFED_MAX_CLASSES]; /* beats of each class */
} ecgfed_counters;

/* Write the counts as bytes, the same on every processor: version, number of bytes, number of classes, 0 (16 bits each),
 * then the counts in the order above (64 bits each), all little endian. */
void ecgfed_counters_write(const ecgfed_counters *counters, uint8_t bytes[ECGFED_COUNTERS_BYTES]);

/* Write the lower bytes of a number, the lowest first; return the place after them. */
uint8_t *ecgfed_write_number(uint8_t *at, uint64_t number, int32_t bytes);

#ifdef __cplusplus
}
#endif

#endif
