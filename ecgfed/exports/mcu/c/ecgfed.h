/* ecgfed: samples of one ECG lead in, beats with their class out. Research use only, not for diagnosis.
 *
 *     static ecgfed_state state;                 // 36 kB, the caller's; nothing is allocated
 *     ecgfed_init(&state, on_beat, NULL);
 *     ecgfed_push(&state, samples_mv, count);    // as they come, in any number, NAN where none was recorded
 *     ecgfed_finish(&state);                     // at the end of a recording
 *
 * A beat comes once its R peak (4.7 s) and, where the model looks at RR intervals, the next R peak are known.
 */
#ifndef ECGFED_H
#define ECGFED_H

#include <stddef.h>
#include <stdint.h>

#include "ecgfed_net.h"
#include "ecgfed_qrs.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ECGFED_BRIDGE 14    /* so many missing samples in a row (40 ms) are bridged; more of them end a stretch */
#define ECGFED_RING 2688    /* samples at 360 Hz that are kept: 7 s, and room to take in some more at a time */
#define ECGFED_KEPT 2560
#define ECGFED_HALF_TAPS 720
#define ECGFED_RR_HISTORY 10
/* Label of a beat whose inference gave no finite logits; ecgfed_class_names has a name for it too. */
#define ECGFED_UNCLASSIFIED ECGFED_MAX_CLASSES

/* A beat. */
typedef struct {
    int64_t sample;        /* R peak: number of the sample, the first one pushed being 0 */
    int32_t label;         /* number of the class in ecgfed_class_names, or ECGFED_UNCLASSIFIED */
    float probability;     /* of that class; 0 where the beat is unclassified, as are all probabilities */
    int32_t uncertain;     /* 1 where the probability lies below the model's threshold, or the beat is far or unclassified */
    int32_t far;           /* 1 where the window looks like none of the training */
    int32_t padded;        /* 1 where the window reaches past an end of the recording, or into a gap */
    float window_mv[ECGFED_WINDOW];
    float rr_s[ECGFED_RR];      /* previous, next, median of the last ten (seconds), previous / median */
    float probabilities[ECGFED_MAX_CLASSES];
} ecgfed_beat;

typedef void (*ecgfed_on_beat)(void *user, const ecgfed_beat *beat);

/* Writes a window's logits, one for each class: ecgfed_net_logits, or an inference of your own (ecgfed_set_inference).
 * Where it fails, let it leave `logits` as they are, or write NAN: the beat is then unclassified. */
typedef void (*ecgfed_inference)(void *user, const float *window_mv, const float *rr_s, float *logits);

/* All that is remembered of a recording; the caller owns it and looks at none of it. */
typedef struct {
    ecgfed_qrs qrs;
    union {
        ecgfed_qrs_work qrs;
        ecgfed_net_work net;
    } work; /* never both at once */
    int32_t ring[ECGFED_RING]; /* twice the whole microvolts, plus one where the sample was missing */
    int64_t ring_start;        /* the stretch's sample that ring[0] is */
    int32_t ring_count;
    int32_t in_stretch, waiting, last_uv;
    ecgfed_flat_line flat;
    int32_t detecting, unseen; /* whether the detector runs; samples in a row, missing or flat, it has not been fed */
    int64_t detected_from;     /* the stretch's sample at which the detector began */
    int64_t seen, begin;       /* samples pushed; where the stretch began */
    ecgfed_beat held[2];       /* a beat that waits for the next one, and the one that has come */
    int32_t beats;             /* 0, 1, or 2 for many */
    float interval[ECGFED_RR_HISTORY];
    int32_t intervals;
    ecgfed_on_beat on_beat;
    void *user;
    ecgfed_inference inference;
    void *inference_user;
} ecgfed_state;

/* Begin a recording. */
void ecgfed_init(ecgfed_state *state, ecgfed_on_beat on_beat, void *user);
/* Take another inference than the int8 runtime here, of the same meaning: TensorFlow Lite Micro, say. */
void ecgfed_set_inference(ecgfed_state *state, ecgfed_inference inference, void *user);
/* Take samples in millivolt, NAN (or infinite) where none was recorded. */
void ecgfed_push(ecgfed_state *state, const float *mv, size_t count);
/* Take one sample in whole microvolts; `missing` is 1 where none was recorded. */
void ecgfed_push_uv(ecgfed_state *state, int32_t uv, int32_t missing);
/* End the recording: the last beats come. ecgfed_init begins the next one. */
void ecgfed_finish(ecgfed_state *state);

#ifdef __cplusplus
}
#endif

#endif
