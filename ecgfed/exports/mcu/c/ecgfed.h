/* ecgfed: samples of one ECG lead in, beats with their class out. Research use only, not for diagnosis.
 *
 *     static ecgfed_state state;                 // 36 to 40 kB, owned by the caller; nothing is allocated
 *     ecgfed_init(&state, on_beat, NULL);
 *     ecgfed_push(&state, samples_mv, count);    // as they arrive, in chunks of any size, NAN if missing
 *     ecgfed_finish(&state);                     // at the end of a recording
 *
 * A beat is reported once its R peak (4.7 s) and, for models with RR features, the next R peak are known.
 */
#ifndef ECGFED_H
#define ECGFED_H

#include <stddef.h>
#include <stdint.h>

#include "ecgfed_context.h"
#include "ecgfed_counters.h"
#include "ecgfed_early.h"
#include "ecgfed_net.h"
#include "ecgfed_qrs.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ECGFED_BRIDGE 14    /* up to this many missing samples in a row (40 ms) are bridged; more end a segment */
#define ECGFED_RING 2688    /* stored samples at 360 Hz: 7 s, and room to append several at a time */
#define ECGFED_RING_KEEP 2560
#define ECGFED_HALF_TAPS 720
#define ECGFED_RR_HISTORY 10
/* Label of a beat without class; ecgfed_class_names has a name for it too. */
#define ECGFED_UNCLASSIFIED ECGFED_MAX_CLASSES
/* Why a beat has no class: a logit was not finite, or the window shows nothing of the heart (ecgfed_signal.h). */
#define ECGFED_NO_LOGITS 1
#define ECGFED_NO_SIGNAL 2

/* A beat. */
typedef struct {
    int64_t sample;        /* sample number of the R peak; the first sample pushed is 0 */
    int64_t beat;          /* id, as in what was announced (ecgfed_announce) */
    int32_t label;         /* number of the class in ecgfed_class_names, or ECGFED_UNCLASSIFIED */
    float probability;     /* of that class; 0 for unclassified beats, as are all probabilities */
    int32_t uncertain;     /* 1 if low confidence: probability below the threshold, `far`, or unclassified */
    int32_t far;           /* 1 if out of distribution: unlike any training beat */
    int32_t padded;        /* 1 if the window extends past an end of the recording, or into a gap */
    int32_t unclassified;  /* 0 if the beat has a class, otherwise ECGFED_NO_LOGITS or ECGFED_NO_SIGNAL */
    float window_mv[ECGFED_WINDOW];
    float rr_s[ECGFED_RR];      /* RR features: of version 1 previous, next, median of the last ten (seconds),
                                 * previous / median */
    float probabilities[ECGFED_MAX_CLASSES];
} ecgfed_beat;

typedef void (*ecgfed_on_beat)(void *user, const ecgfed_beat *beat);

/* Writes a window's logits, one per class: ecgfed_net_logits, or your own inference (ecgfed_set_inference).
 * On failure it leaves `logits` unchanged or writes NAN; the beat is then unclassified. */
typedef void (*ecgfed_inference)(void *user, const float *window_mv, const float *rr_s, float *logits);

/* State of a recording, owned by the caller; its fields are private, except `counters`. */
typedef struct {
    ecgfed_qrs qrs;
    union {
        ecgfed_qrs_work qrs;
        ecgfed_net_work net;
    } work; /* never used at the same time */
    int32_t ring[ECGFED_RING]; /* twice the integer microvolts, plus one if the sample was missing */
    int64_t ring_start;        /* sample of the segment at ring[0] */
    int32_t ring_count;
    int32_t in_stretch, waiting, last_uv;
    ecgfed_flat_line flat;
    int32_t detecting, unseen; /* whether the detector runs; missing or flat samples in a row not yet passed to it */
    int64_t detected_from;     /* sample of the segment at which the detector began */
    int64_t sample_count, begin; /* samples pushed; first sample of the segment */
    int32_t low_uv, high_uv;   /* a sample at or beyond them is saturated */
    ecgfed_beat pending[2];    /* the beat that waits for the next R peak, and that next beat */
    int32_t beats;             /* 0, 1, or 2 for two and more */
#if ECGFED_RR_VERSION == 4
    ecgfed_context context;
    int64_t lost_until;        /* where the stretch began, after the last gap that may hide a beat */
#else
    float interval[ECGFED_RR_HISTORY];
    int32_t intervals;
#endif
    ecgfed_on_beat on_beat;
    void *user;
    ecgfed_inference inference;
    void *inference_user;
    ecgfed_early *early;       /* NULL unless R peaks are announced */
    int64_t next_beat;         /* id of the next beat if not */
    void (*on_sample)(void *user, int32_t uv, int32_t missing); /* ecgfed_monitor's, called with `user` */
    ecgfed_counters counters;  /* to be read at any time between two calls */
} ecgfed_state;

/* Begin a recording. */
void ecgfed_init(ecgfed_state *state, ecgfed_on_beat on_beat, void *user);
/* Also report R peaks a third of a second after the beat, before the detector has decided on them, and what it makes of
 * them; `early` is owned by the caller. After ecgfed_init. */
void ecgfed_announce(ecgfed_state *state, ecgfed_early *early, ecgfed_on_announced on_announced, void *user);
/* Use another inference with the same output instead of this int8 runtime: TensorFlow Lite Micro, for example. */
void ecgfed_set_inference(ecgfed_state *state, ecgfed_inference inference, void *user);
/* Set the limits of the converter in millivolt, at which samples are saturated; they are -1000 and 1000 at first, beyond
 * which samples are clipped. */
void ecgfed_set_rails(ecgfed_state *state, float low_mv, float high_mv);
/* Process samples in millivolt, NAN (or infinite) if missing. */
void ecgfed_push(ecgfed_state *state, const float *mv, size_t count);
/* Process one sample in integer microvolts; `missing` is 1 if it was not recorded. */
void ecgfed_push_uv(ecgfed_state *state, int32_t uv, int32_t missing);
/* End the recording and report its last beats. ecgfed_init begins the next one. */
void ecgfed_finish(ecgfed_state *state);

#ifdef __cplusplus
}
#endif

#endif
