/* ecgfed: what the sources of a lead's quality share; included by them alone. */
#ifndef ECGFED_QUALITY_BLOCKS_H
#define ECGFED_QUALITY_BLOCKS_H

#include "ecgfed_quality.h"

static inline int32_t at_least(int32_t value, int32_t least)
{
    return value < least ? least : value;
}

static inline int32_t at_most(int32_t value, int32_t most)
{
    return value > most ? most : value;
}

static inline float higher(float a, float b)
{
    return a > b ? a : b;
}

/* Sort a few numbers. */
void ecgfed_sort(float *values, int32_t count);
/* Number of blocks in the buffer; the last one is filled up. */
int32_t ecgfed_quality_blocks(const ecgfed_quality *quality);
/* Compute the baseline of each block: the median over a second of the blocks' medians. */
void ecgfed_find_baseline(ecgfed_quality *quality);
/* Flag blocks from `low` to `high` that are noisy, or show nothing but waves above 42 Hz. */
void ecgfed_flag_noise(ecgfed_quality *quality, int32_t low, int32_t high);
/* Flag half seconds in which the baseline moves by much more than in those before and after. */
void ecgfed_flag_jumps(ecgfed_quality *quality);

#endif
