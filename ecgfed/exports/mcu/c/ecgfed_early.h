/* ecgfed: R peaks a third of a second after the beat, put right once the detector has decided, as ecgfed.domain.signal.qrs_early
 * and ecgfed.domain.beats.announced. Optional: its memory is a struct of its own (ecgfed_announce in ecgfed.h).
 */
#ifndef ECGFED_EARLY_H
#define ECGFED_EARLY_H

#include "ecgfed_qrs.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ECGFED_WAVES 24       /* candidates that the detector has not searched: 364 samples, more than 18 apart */
#define ECGFED_PEAKS 48       /* announced beats of six seconds, 0.14 s apart at least */
#define ECGFED_UNDECIDED 40   /* announced beats of 4.7 s, 0.15 s apart at least */

/* What is reported of an R peak: a beat, before the detector has decided; one that was not announced; its R peak is
 * elsewhere; it is none after all. */
#define ECGFED_ANNOUNCED 1
#define ECGFED_ADDED 2
#define ECGFED_MOVED 3
#define ECGFED_WITHDRAWN 4

typedef struct {
    int32_t change;  /* one of the above */
    int64_t beat;    /* id: 0, 1, 2 and so on in the order in which beats became known; ecgfed_beat has it too */
    int64_t sample;  /* R peak */
    int64_t now;     /* samples pushed so far */
} ecgfed_peak;

typedef void (*ecgfed_on_announced)(void *user, const ecgfed_peak *peak);

/* A candidate that may be announced, at a 200 Hz sample, and how often it was evaluated. */
typedef struct {
    int32_t at, looks;
} ecgfed_wave;

/* An announced beat: 200 Hz sample, log odds times 32768, R peak in samples of the detector. */
typedef struct {
    int32_t at, odds;
    int64_t peak;
} ecgfed_announced;

/* All announced beats that the detector has not decided on, and what may be announced; its fields are private. */
typedef struct {
    int64_t origin;                       /* of the detector's numbering of 200 Hz samples */
    int32_t blocks, searched;             /* seconds that the detector had searched, and the end of the search here */
    float scale;                          /* factor of the envelope */
    int32_t candidates, waves, announced;
    int32_t candidate[ECGFED_WAVES];
    ecgfed_wave wave[ECGFED_WAVES];
    ecgfed_announced peak[ECGFED_PEAKS];
    int32_t undecided;
    struct {
        int64_t sample, beat;
    } known[ECGFED_UNDECIDED];            /* in order of time */
    int64_t next;                         /* id of the next beat */
    ecgfed_on_announced on_announced;
    void *user;
} ecgfed_early;

/* Begin a recording. */
void ecgfed_early_init(ecgfed_early *early, ecgfed_on_announced on_announced, void *user);
/* Begin a segment of the detector. */
void ecgfed_early_begin(ecgfed_early *early);
/* Return whether R peaks are looked for after so many samples. */
int32_t ecgfed_early_is_due(int64_t samples);
/* Announce R peaks; `first` is the sample of the recording at which the detector's segment began. */
void ecgfed_early_look(ecgfed_early *early, ecgfed_qrs *qrs, const ecgfed_qrs_caller *caller, int64_t first, int64_t now);
/* Take an R peak of the detector; returns the beat's id. */
int64_t ecgfed_early_decide(ecgfed_early *early, int64_t sample, int64_t now);
/* Withdraw what the detector would have decided on by now, at the end of the recording (`ended`) everything. */
void ecgfed_early_expire(ecgfed_early *early, int64_t now, int32_t ended);

#ifdef __cplusplus
}
#endif

#endif
