/* ecgfed: gaps, flat lines, rails, spikes, noise and jumps of the baseline (ecgfed/domain/signal/quality.py). */
#include "ecgfed_build.h"

#include "ecgfed_quality.h"

#include <math.h>
#include <string.h>

#include "ecgfed_quality_blocks.h"

#define BLOCK ECGFED_QUALITY_BLOCK
#define UNIT ECGFED_QUALITY_UNIT
#define UNIT_BLOCKS (UNIT / BLOCK)
#define LOST 64U /* a mark: missing, saturated or flat */
#define FLAT_UV 10
#define FLAT_SAMPLES 360
#define RAIL_SAMPLES 8
#define LONGEST 3600 /* samples of a gap that a straight line bridges */
#define SPIKE_MV 2.5f
#define SPIKE_TIMES 5.0f
#define SPIKE_RINGS 72
#define SPIKE_MARGIN 18
#define MERGE 360
#define AROUND 2 /* units whose height counts for one, on each side */

void ecgfed_quality_init(ecgfed_quality *quality, int32_t low_uv, int32_t high_uv, ecgfed_on_quality call, void *user)
{
    (void)memset(quality, 0, sizeof *quality);
    quality->low_uv = low_uv;
    quality->high_uv = high_uv;
    quality->on_quality = call;
    quality->user = user;
    quality->tallest[0] = -1.0f;
    quality->tallest[1] = -1.0f;
}

static void mark(ecgfed_quality *quality, int32_t start, int32_t stop, uint32_t reason)
{
    for (int32_t i = start; i < stop; i++) {
        quality->marks[i] = (uint8_t)(quality->marks[i] | reason);
    }
}

/* Mark every second that moves by no more than FLAT_UV. */
static void mark_flat(ecgfed_quality *quality)
{
    int32_t start = 0, low = 0, high = 0, marked = 0;
    for (int32_t i = 0; i < quality->count; i++) {
        const int32_t uv = quality->uv[i];
        if (uv == ECGFED_QUALITY_MISSING) {
            start = i + 1;
            continue;
        }
        low = i == start || uv < low ? uv : low;
        high = i == start || uv > high ? uv : high;
        if (high - low > FLAT_UV) { /* begin again with the samples before this one that are like it */
            low = uv;
            high = uv;
            for (start = i; start > 0 && quality->uv[start - 1] != ECGFED_QUALITY_MISSING; start--) {
                const int32_t before = quality->uv[start - 1];
                if ((before > high ? before : high) - (before < low ? before : low) > FLAT_UV) {
                    break;
                }
                low = before < low ? before : low;
                high = before > high ? before : high;
            }
        }
        if (i - start + 1 >= FLAT_SAMPLES) {
            mark(quality, at_least(i - FLAT_SAMPLES + 1, marked), i + 1, LOST | ECGFED_FLAT);
            marked = i + 1;
        }
    }
}

/* Mark where the lead stays at one limit of the converter; such samples are not flat. */
static void mark_saturated(ecgfed_quality *quality)
{
    int32_t run = 0, side = 0;
    for (int32_t i = 0; i <= quality->count; i++) {
        const int32_t uv = i < quality->count ? quality->uv[i] : ECGFED_QUALITY_MISSING;
        const int32_t here = uv == ECGFED_QUALITY_MISSING ? 0 : uv <= quality->low_uv ? -1 : uv >= quality->high_uv;
        if (here == 0 || here != side) {
            if (run >= RAIL_SAMPLES) {
                (void)memset(quality->marks + i - run, (int)(LOST | ECGFED_RAIL), (size_t)run);
            }
            run = 0;
        }
        side = here;
        run += here != 0;
    }
}

/* Remove a reason from runs shorter than `least`. */
static void drop_short(ecgfed_quality *quality, uint32_t reason, int32_t least)
{
    int32_t run = 0;
    for (int32_t i = 0; i <= quality->count; i++) {
        if (i < quality->count && (quality->marks[i] & reason)) {
            run++;
            continue;
        }
        for (int32_t j = i - run; run < least && j < i; j++) {
            quality->marks[j] = (uint8_t)(quality->marks[j] & ~reason);
        }
        run = 0;
    }
}

/* Fill what lies between two marked samples that are at most `gap` apart. */
static void close_gaps(ecgfed_quality *quality, uint32_t reason, int32_t gap)
{
    int32_t last = -1;
    for (int32_t i = 0; i < quality->count; i++) {
        if (quality->marks[i] & reason) {
            if (last >= 0 && i - last <= gap) {
                mark(quality, last + 1, i, reason);
            }
            last = i;
        }
    }
}

/* Bridge what is marked: a straight line, or in a long gap the value before it and near its end the one behind it. */
static void bridge(ecgfed_quality *quality, uint32_t marks, const ecgfed_before *before)
{
    float *mv = quality->mv;
    int32_t known = before->known, left = before->at;
    float left_mv = before->mv;
    for (int32_t i = 0, stop = 0; i < quality->count; i++) {
        float right_mv, from;
        if (!(quality->marks[i] & marks)) {
            known = 1;
            left = i;
            left_mv = mv[i];
            continue;
        }
        stop = at_least(stop, i);
        while (stop < quality->count && (quality->marks[stop] & marks)) {
            stop++;
        }
        right_mv = stop < quality->count ? mv[stop] : known ? left_mv : 0.0f;
        from = known ? left_mv : right_mv;
        if (stop - left - 1 > LONGEST) {
            mv[i] = i >= stop - LONGEST / 2 ? right_mv : from;
        } else {
            mv[i] = from + (right_mv - from) * (float)(i - left) / (float)(stop - left);
        }
    }
    for (int32_t i = quality->count; i > 0 && i < ecgfed_quality_blocks(quality) * BLOCK; i++) { /* the last block is filled up */
        mv[i] = mv[quality->count - 1];
    }
}

static float deviation(const ecgfed_quality *quality, int32_t at)
{
    return fabsf(quality->mv[at] - quality->baseline[at / BLOCK]);
}

/* Height of the beats around each unit; infinite where the lead is lost, above which nothing is. */
static void find_heights(ecgfed_quality *quality, int32_t ended)
{
    const int32_t units = (quality->count + UNIT - 1) / UNIT;
    const int32_t until = ended ? units : quality->unit + AROUND + AROUND + 1;
    for (; quality->measured < until; quality->measured++) {
        float tallest = -1.0f;
        const int32_t first = quality->measured * UNIT, stop = at_most(first + UNIT, quality->count);
        for (int32_t i = first; i < stop; i++) {
            tallest = quality->marks[i] & LOST ? tallest : higher(tallest, deviation(quality, i));
        }
        quality->tallest[quality->measured + 2] = tallest;
    }
    for (int32_t unit = 0; unit < units; unit++) {
        float sorted[2 * AROUND + 1];
        int32_t known = 0;
        for (int32_t i = unit - AROUND; i <= unit + AROUND; i++) {
            if (i < quality->measured && quality->tallest[i + 2] >= 0.0f) {
                sorted[known] = quality->tallest[i + 2];
                known++;
            }
        }
        ecgfed_sort(sorted, known);
        quality->height[unit] = known ? (sorted[(known - 1) / 2] + sorted[known / 2]) / 2.0f : INFINITY;
    }
}

static void mark_spikes(ecgfed_quality *quality)
{
    int32_t inside = 0, after = 0; /* whether the sample before is in a spike; samples of its margin to come */
    for (int32_t i = 0; i < quality->count; i++) {
        if (!(quality->marks[i] & LOST) &&
            deviation(quality, i) > higher(SPIKE_MV, SPIKE_TIMES * quality->height[i / UNIT])) {
            mark(quality, i, i + 1, ECGFED_SPIKE);
        }
    }
    close_gaps(quality, ECGFED_SPIKE, SPIKE_RINGS);
    for (int32_t i = 0; i < quality->count; i++) { /* widen every run to both sides */
        const int32_t spike = (quality->marks[i] & ECGFED_SPIKE) ? 1 : 0;
        if (spike && !inside) {
            mark(quality, at_least(i - SPIKE_MARGIN, 0), i, ECGFED_SPIKE);
        } else if (!spike && after > 0) {
            mark(quality, i, i + 1, ECGFED_SPIKE);
        } else {
            /* nothing to widen */
        }
        after = spike ? SPIKE_MARGIN : after - 1;
        inside = spike;
    }
}

/* Mark flagged blocks, but for what is marked otherwise, and pauses between them that are short. */
static void mark_blocks(ecgfed_quality *quality, uint32_t reason, uint32_t otherwise)
{
    for (int32_t i = 0; i < quality->count; i++) {
        if (quality->flag[i / BLOCK] && !(quality->marks[i] & otherwise)) {
            mark(quality, i, i + 1, reason);
        }
    }
    close_gaps(quality, reason, MERGE);
    for (int32_t i = 0; i < quality->count; i++) {
        if (quality->marks[i] & LOST) {
            quality->marks[i] = (uint8_t)(quality->marks[i] & ~reason);
        }
    }
}

/* Mark what is lost of the buffer; return whether anything is not. */
static int32_t look_for_losses(ecgfed_quality *quality)
{
    int32_t signal = 0;
    (void)memset(quality->marks, 0, sizeof quality->marks);
    mark_flat(quality);
    mark_saturated(quality);
    drop_short(quality, ECGFED_FLAT, FLAT_SAMPLES);
    for (int32_t i = 0; i < quality->count; i++) {
        const int32_t missing = quality->uv[i] == ECGFED_QUALITY_MISSING;
        if (missing) {
            mark(quality, i, i + 1, LOST | ECGFED_GAP);
        }
        quality->mv[i] = missing ? 0.0f : (float)quality->uv[i] / 1000.0f;
        signal |= !(quality->marks[i] & LOST);
    }
    return signal;
}

/* Judge the buffer's present unit and report it. */
static void judge(ecgfed_quality *quality, int32_t ended)
{
    const int32_t first = quality->unit * UNIT, stop = at_most(first + UNIT, quality->count);
    const int32_t signal = look_for_losses(quality);
    bridge(quality, LOST, &quality->before_lost);
    ecgfed_find_baseline(quality);
    find_heights(quality, ended);
    if (signal) {
        const int32_t low = at_least(first / BLOCK - MERGE / BLOCK - 1, 0);
        const int32_t high = at_most(first / BLOCK + UNIT_BLOCKS + MERGE / BLOCK + 1, ecgfed_quality_blocks(quality));
        mark_spikes(quality);
        bridge(quality, LOST | ECGFED_SPIKE, &quality->before_unlike);
        ecgfed_find_baseline(quality);
        ecgfed_flag_jumps(quality);
        mark_blocks(quality, ECGFED_BASELINE, LOST);
        ecgfed_flag_noise(quality, low, high);
        mark_blocks(quality, ECGFED_NOISE, LOST | ECGFED_SPIKE);
    }
    for (int32_t i = first; i < stop; i++) {
        quality->marks[i] = (uint8_t)(quality->marks[i] & ~LOST);
    }
    quality->on_quality(quality->user, quality->start + first, quality->marks + first, stop - first);
}

/* Remember the last sample of the buffer's first unit that is not marked. */
static void remember(const ecgfed_quality *quality, uint32_t marks, ecgfed_before *before)
{
    before->at = at_least(before->at - UNIT, -2 * LONGEST); /* beyond the longest line all places are alike */
    for (int32_t i = UNIT - 1; i >= 0; i--) {
        if (!(quality->marks[i] & marks)) {
            before->known = 1;
            before->at = i - UNIT;
            before->mv = (float)quality->uv[i] / 1000.0f;
            break;
        }
    }
}

/* Go on to the next unit; drop the first one of the buffer where two lie before. */
static void advance(ecgfed_quality *quality)
{
    if (quality->unit < ECGFED_QUALITY_BEFORE) {
        quality->unit++;
        return;
    }
    remember(quality, LOST, &quality->before_lost);
    remember(quality, LOST | ECGFED_SPIKE, &quality->before_unlike);
    (void)memmove(quality->uv, quality->uv + UNIT, (ECGFED_QUALITY_SAMPLES - UNIT) * sizeof *quality->uv);
    (void)memmove(quality->tallest, quality->tallest + 1, sizeof quality->tallest - sizeof *quality->tallest);
    quality->count -= UNIT;
    quality->measured--;
    quality->start += UNIT;
}

void ecgfed_quality_push(ecgfed_quality *quality, int32_t uv, int32_t missing)
{
    quality->uv[quality->count] = missing ? ECGFED_QUALITY_MISSING : uv;
    quality->count++;
    if (quality->count == (quality->unit + 1 + ECGFED_QUALITY_AFTER) * UNIT) {
        judge(quality, 0);
        advance(quality);
    }
}

void ecgfed_quality_finish(ecgfed_quality *quality)
{
    while (quality->unit * UNIT < quality->count) {
        judge(quality, 1);
        advance(quality);
    }
}
