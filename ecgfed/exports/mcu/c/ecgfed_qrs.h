/* ecgfed: R peaks of one lead at 360 Hz, at the same samples as ecgfed.domain.signal.qrs.
 *
 * Samples are passed one by one as integer microvolts. All state is in one struct owned by the caller; nothing is
 * allocated. docs/qrs.md describes levels, candidates and networks; the comments here describe only differences in C.
 */
#ifndef ECGFED_QRS_H
#define ECGFED_QRS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ECGFED_FS_HZ 360
#define ECGFED_RATE_HZ 200
#define ECGFED_BLOCK 200         /* samples at 200 Hz per level: one second */
#define ECGFED_LOOK_AHEAD 213    /* samples at 200 Hz needed after a block before it is searched */
#define ECGFED_SIGNAL 1056       /* stored samples at 200 Hz: 763 before and 213 after the next block's end fit */
#define ECGFED_STATISTICS 36     /* stored seconds of highest and median envelope */
#define ECGFED_CANDIDATES 48     /* at most 11 in each of three undecided seconds, and 7 neighbours before them */
#define ECGFED_FORM 21
#define ECGFED_LEVELS 5
#define ECGFED_MIXED 24
#define ECGFED_ENVELOPE 730      /* envelope around a block: 330 samples before, 400 after its start */
#define ECGFED_SHAPE 440         /* shape around a block: 120 before, 320 after its start */

#define ECGFED_SIZES 16          /* stored beat sizes */
#define ECGFED_FLAT_PARTS 6      /* parts of half a second after which a flat line counts as no signal */

/* A candidate that the first network did not reject. */
typedef struct {
    int32_t at;    /* 200 Hz sample, in the numbering of signal_start */
    int32_t score; /* log odds of the first network, times 32768 */
    float envelope; /* at the candidate, microvolt */
    int16_t form[ECGFED_FORM];
    int16_t ratio[ECGFED_LEVELS];
    int16_t mixed[ECGFED_MIXED];
} ecgfed_candidate;

/* Scratch memory for processing one second; nothing is stored in it in between. */
typedef struct {
    float envelope[ECGFED_ENVELOPE];
    float shape[ECGFED_SHAPE];
    float sorted[ECGFED_BLOCK];
    int16_t in[112];
    int16_t hidden[64];
    int32_t sums[64];
} ecgfed_qrs_work;

/* One segment of the lead without a gap. */
typedef struct {
    int32_t signal[ECGFED_SIGNAL]; /* integer microvolts at 200 Hz, from sample signal_start on */
    int64_t origin;                /* sample at 360 Hz where the numbering of 200 Hz samples and seconds begins */
    int32_t signal_start;
    int32_t count;                 /* samples at 200 Hz so far */
    int64_t fed;                   /* samples at 360 Hz so far */
    int64_t next_due;              /* five times the 360 Hz samples needed for the next 200 Hz sample */
    int32_t out[3];                /* the last three samples at 360 Hz, steps across missing samples removed */
    int32_t last_uv, last_out;
    int32_t was_missing;                  /* whether the last sample was missing, or there was none */
    float high[ECGFED_STATISTICS], middle[ECGFED_STATISTICS];
    int32_t measured, blocks, decided; /* seconds measured, searched, decided */
    int32_t candidates;
    ecgfed_candidate candidate[ECGFED_CANDIDATES];
    float size[ECGFED_SIZES];      /* envelopes of the last beats, and their number, up to twice as many */
    int32_t sizes;
    int32_t open, open_score, open_at; /* a beat that one with a higher score may still replace */
    int64_t open_peak;
    int64_t reported;              /* the last peak, -1 for none */
} ecgfed_qrs;

/* Detects a flat line over seconds; integer microvolts, of complete parts and of the current one. */
typedef struct {
    int32_t low[ECGFED_FLAT_PARTS], high[ECGFED_FLAT_PARTS];
    int32_t lowest, highest;       /* of the complete parts */
    int32_t part_low, part_high;
    int32_t in_part, part;         /* samples in the current part, and its index */
} ecgfed_flat_line;

/* Receives R peaks, in samples at 360 Hz since the start of the segment. */
typedef void (*ecgfed_on_peak)(void *user, int64_t peak);
/* Returns the sample number of the highest (up) or lowest sample within three of `centre`, from the caller's samples. */
typedef int64_t (*ecgfed_extremum)(void *user, int64_t centre, int32_t up);

/* Callbacks and scratch memory of the caller. */
typedef struct {
    ecgfed_on_peak on_peak;
    ecgfed_extremum extremum;
    void *user;
    ecgfed_qrs_work *work;
} ecgfed_qrs_caller;

/* Begin a recording. */
void ecgfed_flat_begin(ecgfed_flat_line *line);
/* Process the next sample, missing ones included; return whether it lies on a flat line. */
int32_t ecgfed_is_flat(ecgfed_flat_line *line, int32_t uv, int32_t missing);

/* Begin a segment. */
void ecgfed_qrs_begin(ecgfed_qrs *qrs);
/* Process a sample in integer microvolts; if `missing`, the last value is repeated. */
void ecgfed_qrs_push(ecgfed_qrs *qrs, const ecgfed_qrs_caller *caller, int32_t uv, int32_t missing);
/* End the segment and report its last peaks. */
void ecgfed_qrs_finish(ecgfed_qrs *qrs, const ecgfed_qrs_caller *caller);

#ifdef __cplusplus
}
#endif

#endif
