/* ecgfed: R peaks of one lead at 360 samples a second, as ecgfed.domain.signal.qrs finds them, to the same sample.
 *
 * Samples come one by one as whole microvolts. All state lies in one struct that the caller owns; nothing is allocated.
 * Levels, candidates and networks are those of docs/qrs.md; the comments here say only what differs in C.
 */
#ifndef ECGFED_QRS_H
#define ECGFED_QRS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ECGFED_FS_HZ 360
#define ECGFED_RATE_HZ 200
#define ECGFED_BLOCK 200         /* samples at 200 Hz whose levels are taken together: one second */
#define ECGFED_LOOK_AHEAD 275    /* samples at 200 Hz after a block before it is looked at */
#define ECGFED_SIGNAL 1056       /* samples at 200 Hz that are kept: 763 before and 275 after the next block's end */
#define ECGFED_STATISTICS 36     /* seconds whose highest and middle envelope are kept */
#define ECGFED_CANDIDATES 48     /* at most 11 in each of three undecided seconds, and 7 neighbours before them */
#define ECGFED_FORM 21
#define ECGFED_LEVELS 5
#define ECGFED_MIXED 24
#define ECGFED_ENVELOPE 730      /* envelope around a block: 330 samples before, 400 after its start */
#define ECGFED_SHAPE 440         /* shape around a block: 120 before, 320 after its start */

#define ECGFED_SIZES 16          /* beats whose size is kept */
#define ECGFED_FLAT_PARTS 6      /* parts of half a second that a line is flat before it counts as no signal */

/* A candidate that the first network did not rule out. */
typedef struct {
    int32_t at;    /* 200 Hz sample, counted as signal_start is */
    int32_t score; /* log odds of the first network, times 32768 */
    float own;     /* its envelope, microvolt */
    int16_t form[ECGFED_FORM];
    int16_t ratio[ECGFED_LEVELS];
    int16_t mixed[ECGFED_MIXED];
} ecgfed_candidate;

/* Memory that is needed while a second is looked at and holds nothing in between. */
typedef struct {
    float envelope[ECGFED_ENVELOPE];
    float shape[ECGFED_SHAPE];
    float sorted[ECGFED_BLOCK];
    int16_t in[112];
    int16_t hidden[64];
    int32_t sums[64];
} ecgfed_qrs_work;

/* One stretch of the lead without a gap. */
typedef struct {
    int32_t signal[ECGFED_SIGNAL]; /* whole microvolts at 200 Hz, from number signal_start on */
    int64_t origin;                /* sample at 360 Hz where the 200 Hz samples' numbers and the seconds begin */
    int32_t signal_start;
    int32_t count;                 /* samples at 200 Hz so far */
    int64_t fed;                   /* samples at 360 Hz so far */
    int64_t next_due;              /* five times the samples at 360 Hz at which the next one at 200 Hz is known */
    int32_t out[3];                /* the last three samples at 360 Hz as the detector takes them */
    int32_t last_uv, last_out;
    int32_t held;                  /* whether the last sample was missing, or there was none */
    float high[ECGFED_STATISTICS], middle[ECGFED_STATISTICS];
    int32_t measured, blocks, decided; /* seconds measured, looked at, decided */
    int32_t candidates;
    ecgfed_candidate candidate[ECGFED_CANDIDATES];
    float size[ECGFED_SIZES];      /* own envelopes of the last beats, and how many there were, up to twice as many */
    int32_t sizes;
    int32_t open, open_score, open_at; /* a beat that a surer one may yet replace */
    int64_t open_peak;
    int64_t reported;              /* the last peak, -1 for none */
} ecgfed_qrs;

/* Where the lead has not moved for seconds: whole microvolts, of whole parts and of the one under way. */
typedef struct {
    int32_t low[ECGFED_FLAT_PARTS], high[ECGFED_FLAT_PARTS];
    int32_t lowest, highest;       /* of the whole parts */
    int32_t part_low, part_high;
    int32_t in_part, part;         /* samples of the part under way, and its place */
} ecgfed_flat_line;

/* Gives R peaks, in samples at 360 Hz since the stretch began. */
typedef void (*ecgfed_on_peak)(void *user, int64_t peak);
/* Gives the sample number of the highest (up) or lowest sample within three of `centre`; the caller has the samples. */
typedef int64_t (*ecgfed_extremum)(void *user, int64_t centre, int32_t up);

/* What the detector asks of its caller. */
typedef struct {
    ecgfed_on_peak on_peak;
    ecgfed_extremum extremum;
    void *user;
    ecgfed_qrs_work *work;
} ecgfed_qrs_caller;

/* Begin a recording. */
void ecgfed_flat_begin(ecgfed_flat_line *line);
/* Take the recording's next sample, missing ones too; say whether it lies on a flat line. */
int32_t ecgfed_is_flat(ecgfed_flat_line *line, int32_t uv, int32_t missing);

/* Begin a stretch. */
void ecgfed_qrs_begin(ecgfed_qrs *qrs);
/* Take a sample in whole microvolts; `missing` says that none was recorded and the last one is held. */
void ecgfed_qrs_push(ecgfed_qrs *qrs, const ecgfed_qrs_caller *caller, int32_t uv, int32_t missing);
/* End the stretch: the last peaks come. */
void ecgfed_qrs_finish(ecgfed_qrs *qrs, const ecgfed_qrs_caller *caller);

#ifdef __cplusplus
}
#endif

#endif
