/* ecgfed: whether a patient's beats have changed since the first minutes (docs/stream.md). */
#ifndef ECGFED_DRIFT_H
#define ECGFED_DRIFT_H

#include <stdint.h>

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What has changed, as bits. */
#define ECGFED_DRIFT_FAR 1U       /* more beats are out of distribution */
#define ECGFED_DRIFT_UNCERTAIN 2U /* more beats have low confidence */
#define ECGFED_DRIFT_CLASSES 4U   /* the classes are others */
#define ECGFED_DRIFT_SHAPE 8U     /* the commonest beats have another shape */
#define ECGFED_DRIFT_SIZE 16U     /* their QRS has another height */
#define ECGFED_DRIFT_POOR 32U     /* more beats are of poor quality */
#define ECGFED_DRIFT_SILENCE 64U  /* no beat has come for a minute */
#define ECGFED_DRIFT_REASONS 7
/* Changes due to the signal, for which new labels do not help. */
#define ECGFED_DRIFT_OF_THE_SIGNAL (ECGFED_DRIFT_POOR | ECGFED_DRIFT_SILENCE)

#define ECGFED_DRIFT_FIRST 300 /* reference beats: the first ones of good quality */
#define ECGFED_DRIFT_LAST 200  /* present beats: the last ones of any quality */
#define ECGFED_DRIFT_SHAPE_POINTS 64

/* A beat as it is counted. */
typedef struct {
    int16_t shape_uv[ECGFED_DRIFT_SHAPE_POINTS]; /* the window in means of four samples */
    int32_t size_uv;                             /* height of the QRS */
    uint8_t label, uncertain, far, poor;         /* a poor beat, or one without class, is only counted */
} ecgfed_drift_beat;

typedef struct {
    int32_t beats, good, uncertain, far;
    int32_t label[ECGFED_MAX_CLASSES];
    int64_t size_uv[ECGFED_MAX_CLASSES];
    int32_t shape_uv[ECGFED_MAX_CLASSES][ECGFED_DRIFT_SHAPE_POINTS];
} ecgfed_drift_counts;

/* State, owned by the caller; its fields are private, except `active` and `began`. */
typedef struct {
    ecgfed_drift_counts first, now;
    ecgfed_drift_beat last[ECGFED_DRIFT_LAST];
    int32_t newest;
    uint32_t active;                      /* bits of the present changes */
    uint64_t began[ECGFED_DRIFT_REASONS]; /* how often each change has begun */
} ecgfed_drift;

/* Begin, or begin again with new reference beats: after new labels, or for another patient. */
void ecgfed_drift_init(ecgfed_drift *drift);
/* Compute shape and size of a window of 256 samples in millivolt. */
void ecgfed_drift_measure(const float *window_mv, ecgfed_drift_beat *beat);
/* Take the next beat. */
void ecgfed_drift_add(ecgfed_drift *drift, const ecgfed_drift_beat *beat);
/* Take the time without R peaks, in samples at 360 Hz. */
void ecgfed_drift_quiet(ecgfed_drift *drift, int64_t samples);
/* Each change as a fraction of its bound, in the order of the bits; the last one, silence, is not among them. */
void ecgfed_drift_values(const ecgfed_drift *drift, double values[ECGFED_DRIFT_REASONS - 1]);

#ifdef __cplusplus
}
#endif

#endif
