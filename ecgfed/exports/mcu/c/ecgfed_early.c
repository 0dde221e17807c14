/* ecgfed: announced R peaks: the detector's networks as if the signal ended here, and what the detector makes of them. */
#include "ecgfed_build.h"

#include "ecgfed_early.h"

#include <string.h>

#include "ecgfed_early_marks.h"
#include "ecgfed_qrs_parts.h"

#define ENVELOPE_AHEAD 13
#define NOTHING (-8 * 32768)
#define COMPARED 2 /* seconds before the decided ones whose announced beats are compared */

/* What was evaluated: of each candidate its place among the detector's own, -1 for none, and its log odds. */
typedef struct {
    int32_t place[ECGFED_WAVES], odds[ECGFED_WAVES];
} scores;

static int64_t apart(int64_t a, int64_t b)
{
    return a < b ? b - a : a - b;
}

void ecgfed_early_init(ecgfed_early *early, ecgfed_on_announced on_announced, void *user)
{
    (void)memset(early, 0, sizeof *early);
    early->on_announced = on_announced;
    early->user = user;
}

void ecgfed_early_begin(ecgfed_early *early)
{
    early->origin = 0;
    early->blocks = 0;
    early->searched = 0;
    early->candidates = 0;
    early->waves = 0;
    early->announced = 0;
}

int32_t ecgfed_early_is_due(int64_t samples)
{
    const int32_t in_step = (int32_t)(samples % ECGFED_EARLY_STEP);
    const int32_t part = (in_step * ECGFED_EARLY_PARTS + ECGFED_EARLY_STEP - 1) / ECGFED_EARLY_STEP;
    return part * ECGFED_EARLY_STEP / ECGFED_EARLY_PARTS == in_step;
}

static void notify(const ecgfed_early *early, int32_t change, int64_t beat, int64_t sample, int64_t now)
{
    ecgfed_peak peak;
    peak.change = change;
    peak.beat = beat;
    peak.sample = sample;
    peak.now = now;
    early->on_announced(early->user, &peak);
}

static void forget_known(ecgfed_early *early, int32_t which)
{
    early->undecided--;
    for (int32_t i = which; i < early->undecided; i++) {
        early->known[i] = early->known[i + 1];
    }
}

/* Announce an R peak unless it is beside a known one. */
static void announce(ecgfed_early *early, int64_t sample, int64_t now)
{
    int32_t i = early->undecided;
    for (int32_t k = i - 1; k >= 0; k--) {
        if (apart(early->known[k].sample, sample) < ECGFED_EARLY_MATCH) {
            return;
        }
    }
    if (i == ECGFED_UNDECIDED) {
        return; /* cannot happen: they are withdrawn after 4.7 s */
    }
    for (; i > 0 && early->known[i - 1].sample > sample; i--) {
        early->known[i] = early->known[i - 1];
    }
    early->known[i].sample = sample;
    early->known[i].beat = early->next;
    early->next++;
    early->undecided++;
    notify(early, ECGFED_ANNOUNCED, early->known[i].beat, sample, now);
}

int64_t ecgfed_early_decide(ecgfed_early *early, int64_t sample, int64_t now)
{
    int64_t beat, before;
    int32_t nearest = -1;
    for (int32_t i = 0; i < early->undecided; i++) {
        const int64_t distance = apart(early->known[i].sample, sample);
        if (distance <= ECGFED_EARLY_MATCH &&
            (nearest < 0 || distance < apart(early->known[nearest].sample, sample))) {
            nearest = i;
        }
    }
    if (nearest < 0) {
        beat = early->next;
        early->next++;
        notify(early, ECGFED_ADDED, beat, sample, now);
        return beat;
    }
    beat = early->known[nearest].beat;
    before = early->known[nearest].sample;
    forget_known(early, nearest);
    if (before != sample) {
        notify(early, ECGFED_MOVED, beat, sample, now);
    }
    return beat;
}

void ecgfed_early_expire(ecgfed_early *early, int64_t now, int32_t ended)
{
    while (early->undecided && (ended || now >= early->known[0].sample + ECGFED_EARLY_EXPIRES)) {
        const int64_t beat = early->known[0].beat, sample = early->known[0].sample;
        forget_known(early, 0);
        notify(early, ECGFED_WITHDRAWN, beat, sample, now);
    }
}

/* Renumber with the detector; drop what it has searched itself; take the level of the last measured second. */
static void settle(ecgfed_early *early, const ecgfed_qrs *qrs)
{
    const int32_t past = (int32_t)((qrs->origin - early->origin) / ECGFED_FS_HZ) * ECGFED_BLOCK;
    const int32_t first = qrs->blocks * ECGFED_BLOCK, oldest = (qrs->decided - COMPARED) * ECGFED_BLOCK;
    int32_t remaining = 0;
    ecgfed_level level;
    early->origin = qrs->origin;
    early->blocks = qrs->blocks;
    early->searched -= past;
    if (early->searched < first) {
        early->searched = first;
    }
    for (int32_t i = 0; i < early->candidates; i++) {
        if (early->candidate[i] - past >= first) {
            early->candidate[remaining] = early->candidate[i] - past;
            remaining++;
        }
    }
    early->candidates = remaining;
    remaining = 0;
    for (int32_t i = 0; i < early->waves; i++) {
        if (early->wave[i].at - past >= first) {
            early->wave[remaining].at = early->wave[i].at - past;
            early->wave[remaining].looks = early->wave[i].looks;
            remaining++;
        }
    }
    early->waves = remaining;
    remaining = 0;
    for (int32_t i = 0; i < early->announced; i++) {
        if (early->peak[i].at - past >= oldest) {
            early->peak[remaining] = early->peak[i];
            early->peak[remaining].at -= past;
            remaining++;
        }
    }
    early->announced = remaining;
    ecgfed_qrs_level(qrs, qrs->measured - 1, &level);
    early->scale = ecgfed_qrs_scale(&level);
}

/* Search for candidates up to a 200 Hz sample: peaks of the envelope. */
static void search(ecgfed_early *early, const ecgfed_qrs *qrs, int32_t stop, ecgfed_qrs_work *work)
{
    const int32_t first = early->searched;
    if (stop <= first) {
        return;
    }
    early->searched = stop;
    ecgfed_qrs_envelope(qrs, first - ECGFED_CANDIDATE_SPACING, stop - first + 2 * ECGFED_CANDIDATE_SPACING, work->envelope);
    for (int32_t t = 0; t < stop - first; t++) {
        const float *centre = work->envelope + ECGFED_CANDIDATE_SPACING + t;
        const float current = early->scale * *centre;
        int32_t highest = current > ECGFED_LOWEST;
        for (int32_t d = 1; highest && d <= ECGFED_CANDIDATE_SPACING; d++) {
            highest = current > early->scale * centre[-d] && current >= early->scale * centre[d];
        }
        if (highest && early->candidates < ECGFED_WAVES && early->waves < ECGFED_WAVES) {
            early->candidate[early->candidates] = first + t;
            early->candidates++;
            early->wave[early->waves].at = first + t;
            early->wave[early->waves].looks = 0;
            early->waves++;
        }
    }
}

/* First network for every candidate, in places after the detector's own; returns how many it does not reject. */
static int32_t look_first(const ecgfed_early *early, ecgfed_qrs *qrs, ecgfed_qrs_work *work, scores *found)
{
    int32_t fresh = 0, current = -1;
    ecgfed_level level;
    (void)memset(&level, 0, sizeof level);
    for (int32_t i = 0; i < early->candidates; i++) {
        const int32_t block = early->candidate[i] / ECGFED_BLOCK, place = qrs->candidates + fresh;
        found->place[i] = -1;
        if (place == ECGFED_CANDIDATES) {
            continue; /* cannot happen */
        }
        if (block != current) {
            current = block;
            ecgfed_qrs_envelope(qrs, block * ECGFED_BLOCK - 330, ECGFED_ENVELOPE, work->envelope);
            ecgfed_qrs_shape(qrs, block * ECGFED_BLOCK - 120, ECGFED_SHAPE, work->shape);
            ecgfed_qrs_level(qrs, block < qrs->measured ? block : qrs->measured - 1, &level);
        }
        if (ecgfed_qrs_evaluate(qrs->candidate + place, block, early->candidate[i] % ECGFED_BLOCK, &level, work)) {
            found->place[i] = place;
            fresh++;
        }
    }
    return fresh;
}

/* Evaluate every candidate as if the signal ended here; the detector's own state is as before. */
static void evaluate(const ecgfed_early *early, ecgfed_qrs *qrs, ecgfed_qrs_work *work, scores *found)
{
    float size[ECGFED_SIZES];
    const int32_t measured = qrs->measured, sizes = qrs->sizes;
    int32_t count;
    ecgfed_qrs_measure(qrs, qrs->count - ENVELOPE_AHEAD, work);
    count = qrs->candidates + look_first(early, qrs, work, found);
    qrs->measured = measured;
    (void)memcpy(size, qrs->size, sizeof size);
    for (int32_t i = 0; i < early->candidates; i++) {
        found->odds[i] = NOTHING;
        if (found->place[i] >= 0) {
            const int32_t odds = ecgfed_second_look(qrs->candidate, count, found->place[i], work);
            if (odds <= 0 || ecgfed_qrs_is_strong(qrs, qrs->candidate + found->place[i], work)) {
                found->odds[i] = odds;
            }
        }
    }
    (void)memcpy(qrs->size, size, sizeof size);
    qrs->sizes = sizes;
}

/* Announce a beat unless another announced one is too near, or it is too late. */
static void announce_beat(ecgfed_early *early, const ecgfed_qrs *qrs, const ecgfed_qrs_caller *caller,
                          const ecgfed_candidate *beat, int32_t odds, int64_t first, int64_t now)
{
    int64_t peak;
    for (int32_t i = 0; i < early->announced; i++) {
        const int32_t weak = odds < ECGFED_WEAK_SCORE || early->peak[i].odds < ECGFED_WEAK_SCORE;
        if (apart(beat->at, early->peak[i].at) < (weak ? ECGFED_RELATIVE_REFRACTORY : ECGFED_REFRACTORY)) {
            return;
        }
    }
    peak = ecgfed_qrs_r_peak(qrs, caller, beat);
    if (qrs->fed - peak > ECGFED_EARLY_AT_MOST || early->announced == ECGFED_PEAKS) {
        return;
    }
    for (int32_t i = 0; i < early->announced; i++) {
        if (10 * apart(peak, early->peak[i].peak) < ECGFED_SAME_PEAK_X10) {
            return;
        }
    }
    early->peak[early->announced].at = beat->at;
    early->peak[early->announced].odds = odds;
    early->peak[early->announced].peak = peak;
    early->announced++;
    announce(early, first + peak, now);
}

/* Remove the waves that are due and return their number. */
static int32_t due_waves(ecgfed_early *early, int32_t count, ecgfed_wave *due)
{
    int32_t number = 0, remaining = 0;
    for (int32_t i = 0; i < early->waves; i++) {
        const ecgfed_wave wave = early->wave[i];
        if (count - wave.at >= ecgfed_early_age[wave.looks]) {
            due[number] = wave;
            number++;
        } else {
            early->wave[remaining] = wave;
            remaining++;
        }
    }
    early->waves = remaining;
    return number;
}

/* Announce a wave, evaluate it again later, or drop it. */
static void judge_wave(ecgfed_early *early, const ecgfed_qrs *qrs, const ecgfed_qrs_caller *caller, const scores *found,
                  ecgfed_wave wave, int64_t first, int64_t now)
{
    int32_t which = 0, passed = 0;
    while (which < early->candidates && early->candidate[which] != wave.at) {
        which++;
    }
    while (passed < ECGFED_EARLY_MARKS && qrs->count - wave.at >= ecgfed_early_age[passed]) {
        passed++;
    }
    if (which == early->candidates || found->place[which] < 0 || found->odds[which] <= ECGFED_EARLY_HOPELESS) {
        return;
    }
    if (found->odds[which] > ecgfed_early_odds[passed - 1]) {
        announce_beat(early, qrs, caller, qrs->candidate + found->place[which], found->odds[which], first, now);
    } else if (passed < ECGFED_EARLY_MARKS) {
        early->wave[early->waves].at = wave.at;
        early->wave[early->waves].looks = passed;
        early->waves++;
    } else {
        /* it is dropped */
    }
}

void ecgfed_early_look(ecgfed_early *early, ecgfed_qrs *qrs, const ecgfed_qrs_caller *caller, int64_t first, int64_t now)
{
    ecgfed_wave due[ECGFED_WAVES];
    scores found;
    int32_t number;
    if (!qrs->blocks) {
        return;
    }
    if (qrs->blocks != early->blocks || qrs->origin != early->origin) {
        settle(early, qrs);
    }
    search(early, qrs, qrs->count - ecgfed_early_age[0] + 1, caller->work);
    number = due_waves(early, qrs->count, due);
    if (!number) {
        return;
    }
    evaluate(early, qrs, caller->work, &found);
    for (int32_t i = 0; i < number; i++) {
        judge_wave(early, qrs, caller, &found, due[i], first, now);
    }
}
