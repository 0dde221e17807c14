/* ecgfed: the counts of a recording as bytes. */
#include "ecgfed_build.h"

#include "ecgfed_counters.h"

uint8_t *ecgfed_write_number(uint8_t *at, uint64_t number, int32_t bytes)
{
    for (int32_t i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(number & 0xFFU);
        number >>= 8;
    }
    return at + bytes;
}

void ecgfed_counters_write(const ecgfed_counters *counters, uint8_t bytes[ECGFED_COUNTERS_BYTES])
{
    const uint64_t counts[ECGFED_COUNTERS] = {
        counters->samples,   counters->missing,   counters->saturated, counters->flat,
        counters->stretches, counters->beats,     counters->no_logits, counters->no_signal,
        counters->uncertain, counters->far,       counters->padded,    counters->last_beat,
    };
    uint8_t *at = ecgfed_write_number(bytes, ECGFED_COUNTERS_VERSION, 2);
    at = ecgfed_write_number(at, ECGFED_COUNTERS_BYTES, 2);
    at = ecgfed_write_number(at, ECGFED_MAX_CLASSES, 2);
    at = ecgfed_write_number(at, 0, 2);
    for (int32_t i = 0; i < ECGFED_COUNTERS; i++) {
        at = ecgfed_write_number(at, counts[i], 8);
    }
    for (int32_t i = 0; i < ECGFED_MAX_CLASSES; i++) {
        at = ecgfed_write_number(at, counters->label[i], 8);
    }
}
