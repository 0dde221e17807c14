/* ecgfed: the R peak detector's stream: 200 Hz signal, envelope, levels, candidates, decisions (ecgfed.domain.signal.qrs*). */
#include "ecgfed_build.h"

#include "ecgfed_qrs.h"

#include <string.h>

#include "ecgfed_qrs_net.h"
#include "ecgfed_qrs_parts.h"

#define FLOOR_UV 4.0f
#define FIRST_BLOCKS 4
#define BLOCKS_AHEAD 2
#define KEEP (-5 * 32768)
#define REACH 28               /* maximum distance of the R peak from its candidate */
#define EXTREMA 6
#define WEAK_MIN_UV 30.0f    /* a wave is weak below WEAK_SHARE of the last beats' envelope, at least this, */
#define WEAK_MAX_UV 60.0f     /* at most this, */
#define WEAK_SHARE 0.12f
#define WEAK_RATIO 96          /* unless it exceeds the median by 1.5 octaves: half the log2, in 1/128 */
#define FLAT_UV 40             /* range of a flat line over three seconds */
#define FLAT_PART 180          /* half a second at 360 Hz */
#define NO_SAMPLE_UV 4000000   /* beyond all samples */
#define OFFSET_UV 8000000      /* 151 times this, the longest sum, and less than 2^31 */
/* Seconds after which 200 Hz samples are renumbered: a multiple of the length of the statistics, and longer than the
 * memory for candidates (12 s). */
#ifndef ECGFED_RENUMBER
#define ECGFED_RENUMBER (30 * ECGFED_STATISTICS)
#endif

/* Integer sums wrap around, as in numpy. */
static int32_t plus(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

static int32_t minus(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b);
}

static int32_t lesser(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

void ecgfed_flat_begin(ecgfed_flat_line *line)
{
    for (int32_t i = 0; i < ECGFED_FLAT_PARTS; i++) { /* a recording begins without a flat line */
        line->low[i] = -NO_SAMPLE_UV;
        line->high[i] = NO_SAMPLE_UV;
    }
    line->lowest = -NO_SAMPLE_UV;
    line->highest = NO_SAMPLE_UV;
    line->part_low = NO_SAMPLE_UV;
    line->part_high = -NO_SAMPLE_UV;
    line->in_part = 0;
    line->part = 0;
}

static void end_flat_part(ecgfed_flat_line *line)
{
    line->low[line->part] = line->part_low;
    line->high[line->part] = line->part_high;
    line->part = (line->part + 1) % ECGFED_FLAT_PARTS;
    line->in_part = 0;
    line->lowest = NO_SAMPLE_UV;
    line->part_low = NO_SAMPLE_UV;
    line->highest = -NO_SAMPLE_UV;
    line->part_high = -NO_SAMPLE_UV;
    for (int32_t i = 0; i < ECGFED_FLAT_PARTS; i++) {
        line->lowest = lesser(line->lowest, line->low[i]);
        line->highest = larger(line->highest, line->high[i]);
    }
}

int32_t ecgfed_is_flat(ecgfed_flat_line *line, int32_t uv, int32_t missing)
{
    int32_t flat = 0;
    if (!missing) {
        line->part_low = lesser(line->part_low, uv);
        line->part_high = larger(line->part_high, uv);
        flat = line->highest >= line->lowest &&
               larger(line->highest, line->part_high) - lesser(line->lowest, line->part_low) <= FLAT_UV;
    }
    if (++line->in_part == FLAT_PART) {
        end_flat_part(line);
    }
    return flat;
}

void ecgfed_qrs_begin(ecgfed_qrs *qrs)
{
    (void)memset(qrs, 0, sizeof *qrs);
    qrs->next_due = 7;
    qrs->was_missing = 1;
    qrs->reported = -1;
}

/* The 360 Hz sample of the segment at a 200 Hz sample. */
static int64_t at_360(const ecgfed_qrs *qrs, int32_t at)
{
    return qrs->origin + ((int64_t)at * 9 + 2) / 5;
}

/* A 200 Hz sample; the first and the last one continue beyond the ends. */
static int32_t sample(const ecgfed_qrs *qrs, int32_t at)
{
    at = larger(lesser(at, qrs->count - 1), 0);
    return qrs->signal[at - qrs->signal_start];
}

/* Twelve times the signal smoothed over 30 ms: means of 4 and of 3, of samples `at` to `at` + 5. */
static int32_t smooth(const ecgfed_qrs *qrs, int32_t at)
{
    static const uint32_t weight[6] = {1, 2, 3, 3, 2, 1};
    uint32_t sum = 0;
    for (int32_t i = 0; i < 6; i++) {
        sum += weight[i] * (uint32_t)sample(qrs, at + i);
    }
    return (int32_t)sum;
}

/* Absolute slope over 30 ms, from `at` on. */
static int32_t slope(const ecgfed_qrs *qrs, int32_t at)
{
    const int32_t rise = minus(smooth(qrs, at + 6), smooth(qrs, at));
    return rise < 0 ? minus(0, rise) : rise;
}

void ecgfed_qrs_envelope(const ecgfed_qrs *qrs, int32_t from, int32_t count, float *out)
{
    int32_t sum = 0;
    for (int32_t i = -14; i < 2; i++) {
        sum = plus(sum, slope(qrs, from + i));
    }
    for (int32_t i = 0; i < count; i++) {
        sum = plus(sum, slope(qrs, from + i + 2));
        out[i] = (float)sum / 204.0f;
        sum = minus(sum, slope(qrs, from + i - 14));
    }
}

void ecgfed_qrs_shape(const ecgfed_qrs *qrs, int32_t from, int32_t count, float *out)
{
    int32_t base = 0;
    for (int32_t i = -75; i < 75; i++) {
        base = plus(base, sample(qrs, from + i));
    }
    for (int32_t i = 0; i < count; i++) {
        base = plus(base, sample(qrs, from + i + 75));
        out[i] = (float)smooth(qrs, from + i - 3) / 12.0f - (float)base / 151.0f;
        base = minus(base, sample(qrs, from + i - 75));
    }
}

static void sort(float *values, int32_t count)
{
    for (int32_t gap = count / 2; gap > 0; gap /= 2) {
        for (int32_t i = gap; i < count; i++) {
            const float value = values[i];
            int32_t j = i;
            for (; j >= gap && values[j - gap] > value; j -= gap) {
                values[j] = values[j - gap];
            }
            values[j] = value;
        }
    }
}

void ecgfed_qrs_measure(ecgfed_qrs *qrs, int32_t stop, ecgfed_qrs_work *work)
{
    while (qrs->measured * ECGFED_BLOCK < stop) {
        const int32_t from = qrs->measured * ECGFED_BLOCK, count = lesser(stop - from, ECGFED_BLOCK);
        const int32_t slot = qrs->measured % ECGFED_STATISTICS;
        ecgfed_qrs_envelope(qrs, from, count, work->sorted);
        sort(work->sorted, count);
        qrs->high[slot] = work->sorted[count - 1];
        qrs->middle[slot] = work->sorted[count / 2];
        qrs->measured++;
    }
}

/* Sort the last `count` values up to second `last`. */
static void sorted_last(const float *values, int32_t last, int32_t count, float *out)
{
    for (int32_t i = 0; i < count; i++) {
        out[i] = values[(last - i) % ECGFED_STATISTICS];
    }
    sort(out, count);
}

void ecgfed_qrs_level(const ecgfed_qrs *qrs, int32_t block, ecgfed_level *level)
{
    float sorted[30];
    const int32_t last = larger(block, lesser(FIRST_BLOCKS, qrs->measured) - 1);
    int32_t count = lesser(last + 1, 10);
    sorted_last(qrs->high, last, count, sorted);
    level->value[0] = sorted[(13 * (count - 1) + 10) / 20];
    level->value[2] = sorted[count - 1];
    level->value[3] = sorted[(2 * (count - 1) + 5) / 10];
    sorted_last(qrs->middle, last, count, sorted);
    level->value[1] = sorted[count / 2];
    count = lesser(last + 1, 30);
    sorted_last(qrs->high, last, count, sorted);
    level->value[4] = sorted[(13 * (count - 1) + 10) / 20];
    level->value[5] = qrs->high[block % ECGFED_STATISTICS];
}

float ecgfed_qrs_scale(const ecgfed_level *level)
{
    const float high = level->value[0] > FLOOR_UV ? level->value[0] : FLOOR_UV;
    float weight = 1.0f - 3.0f * level->value[1] / high;
    if (level->value[0] < FLOOR_UV || level->value[5] < FLOOR_UV) {
        return 0.0f;
    }
    weight = weight > 0.05f ? weight : 0.05f;
    return weight / high / weight;
}

int32_t ecgfed_qrs_evaluate(ecgfed_candidate *added, int32_t block, int32_t in_block, const ecgfed_level *level,
                            ecgfed_qrs_work *work)
{
    const float share = level->value[0] * 0.03f, minimum = share > FLOOR_UV / 2 ? share : FLOOR_UV / 2;
    const float envelope = work->envelope[330 + in_block];
    added->at = block * ECGFED_BLOCK + in_block;
    added->envelope = envelope > minimum ? envelope : minimum;
    ecgfed_first_look(added, in_block, level, work);
    return added->score > KEEP;
}

/* Find the peaks of the envelope in a second and evaluate the first network for each. */
static void look_at(ecgfed_qrs *qrs, int32_t block, ecgfed_qrs_work *work)
{
    ecgfed_level level[3];
    float scale[3];
    const int32_t last = qrs->measured - 1;
    for (int32_t i = 0; i < 3; i++) {
        ecgfed_qrs_level(qrs, larger(lesser(block - 1 + i, last), 0), level + i);
        scale[i] = ecgfed_qrs_scale(level + i);
    }
    ecgfed_qrs_envelope(qrs, block * ECGFED_BLOCK - 330, ECGFED_ENVELOPE, work->envelope);
    ecgfed_qrs_shape(qrs, block * ECGFED_BLOCK - 120, ECGFED_SHAPE, work->shape);
    for (int32_t t = 0; t < ECGFED_BLOCK && block * ECGFED_BLOCK + t < qrs->count; t++) {
        const float current = scale[1] * work->envelope[330 + t];
        int32_t highest = current > ECGFED_LOWEST;
        for (int32_t d = 1; highest && d <= ECGFED_CANDIDATE_SPACING; d++) {
            const float before = scale[t >= d ? 1 : 0] * work->envelope[330 + t - d];
            const float after = scale[t + d < ECGFED_BLOCK ? 1 : 2] * work->envelope[330 + t + d];
            highest = current > before && current >= after;
        }
        if (highest && qrs->candidates < ECGFED_CANDIDATES && /* always: candidates are more than 18 samples apart */
            ecgfed_qrs_evaluate(qrs->candidate + qrs->candidates, block, t, level + 1, work)) {
            qrs->candidates++;
        }
    }
}

static int32_t smooth_three(const ecgfed_qrs *qrs, int32_t at)
{
    return plus(plus(sample(qrs, at - 1), sample(qrs, at)), sample(qrs, at + 1));
}

static int32_t is_turn(const ecgfed_qrs *qrs, int32_t at)
{
    const int32_t before = smooth_three(qrs, at - 1), current = smooth_three(qrs, at);
    const int32_t after = smooth_three(qrs, at + 1);
    return (current > before && !(after > current)) || (current < before && !(after < current));
}

typedef struct {
    int32_t at;
    float height;
} turn;

/* List the extrema around a beat, the most prominent first, of equal ones the earlier; returns their number. */
static int32_t turns_around(const ecgfed_qrs *qrs, int32_t at, const float *shape, turn *turns)
{
    int32_t count = 0;
    for (int32_t position = at - REACH; position <= at + REACH; position++) {
        turn candidate;
        int32_t i;
        if (!is_turn(qrs, position)) {
            continue;
        }
        candidate.at = position;
        candidate.height = shape[position - at] < 0.0f ? -shape[position - at] : shape[position - at];
        for (i = count; i > 0 && turns[i - 1].height < candidate.height; i--) {
            if (i < EXTREMA) {
                turns[i] = turns[i - 1];
            }
        }
        if (i < EXTREMA) {
            turns[i] = candidate;
            count = lesser(count + 1, EXTREMA);
        }
    }
    return count;
}

int64_t ecgfed_qrs_r_peak(const ecgfed_qrs *qrs, const ecgfed_qrs_caller *caller, const ecgfed_candidate *beat)
{
    ecgfed_qrs_work *work = caller->work;
    float *shape = work->shape + 88, *envelope = work->envelope + 58;
    turn turns[EXTREMA];
    int32_t chosen = beat->at, best = 0, count, up;
    ecgfed_qrs_shape(qrs, beat->at - 88, 177, work->shape);
    ecgfed_qrs_envelope(qrs, beat->at - 58, 117, work->envelope);
    count = turns_around(qrs, beat->at, shape, turns);
    for (int32_t i = 0; i < count; i++) {
        const int32_t offset = turns[i].at - beat->at;
        const int32_t score = ecgfed_peak_score(shape + offset, envelope + offset, beat->envelope, offset,
                                                turns[i].height, turns[0].height, work);
        if (i == 0 || score > best) {
            best = score;
            chosen = turns[i].at;
        }
    }
    up = plus(smooth_three(qrs, chosen), smooth_three(qrs, chosen)) >=
         plus(smooth_three(qrs, chosen - 3), smooth_three(qrs, chosen + 3));
    return caller->extremum(caller->user, at_360(qrs, chosen), up);
}

/* Report the open beat; if its R peak coincides with that of the last beat, at the centre of its envelope. */
static void report(ecgfed_qrs *qrs, const ecgfed_qrs_caller *caller)
{
    int64_t peak = qrs->open_peak;
    if (!qrs->open) {
        return;
    }
    qrs->open = 0;
    if (10 * (peak - qrs->reported) < ECGFED_SAME_PEAK_X10) {
        peak = at_360(qrs, qrs->open_at);
    }
    if (qrs->reported < 0 || 10 * (peak - qrs->reported) >= ECGFED_SAME_PEAK_X10) {
        qrs->reported = peak;
        caller->on_peak(caller->user, peak);
    }
}

/* Add a beat: of two within the refractory period the one with the higher score remains. */
static void take_beat(ecgfed_qrs *qrs, const ecgfed_qrs_caller *caller, const ecgfed_candidate *beat, int32_t score)
{
    const int64_t peak = ecgfed_qrs_r_peak(qrs, caller, beat);
    const int32_t weak = score < ECGFED_WEAK_SCORE || qrs->open_score < ECGFED_WEAK_SCORE;
    const int32_t close = qrs->open && beat->at - qrs->open_at < (weak ? ECGFED_RELATIVE_REFRACTORY : ECGFED_REFRACTORY);
    if (close && score < qrs->open_score) {
        return;
    }
    if (!close) {
        report(qrs, caller);
    }
    qrs->open = 1;
    qrs->open_score = score;
    qrs->open_at = beat->at;
    qrs->open_peak = peak;
}

int32_t ecgfed_qrs_is_strong(ecgfed_qrs *qrs, const ecgfed_candidate *beat, ecgfed_qrs_work *work)
{
    const int32_t known = lesser(qrs->sizes, ECGFED_SIZES);
    if (beat->ratio[1] < WEAK_RATIO) {
        float minimum = 0.0f;
        if (known) {
            (void)memcpy(work->sorted, qrs->size, (size_t)known * sizeof *qrs->size);
            sort(work->sorted, known);
            minimum = WEAK_SHARE * work->sorted[known / 4];
        }
        minimum = minimum < WEAK_MIN_UV ? WEAK_MIN_UV : minimum > WEAK_MAX_UV ? WEAK_MAX_UV : minimum;
        if (beat->envelope < minimum) {
            return 0;
        }
    }
    qrs->size[qrs->sizes % ECGFED_SIZES] = beat->envelope;
    qrs->sizes = qrs->sizes == 2 * ECGFED_SIZES - 1 ? ECGFED_SIZES : qrs->sizes + 1;
    return 1;
}

/* Decide on the candidates of a second; those of the two following seconds are known. */
static void decide(ecgfed_qrs *qrs, const ecgfed_qrs_caller *caller)
{
    const int32_t stop = (qrs->decided + 1) * ECGFED_BLOCK;
    for (int32_t i = 0; i < qrs->candidates; i++) {
        int32_t score;
        if (qrs->candidate[i].at < qrs->decided * ECGFED_BLOCK || qrs->candidate[i].at >= stop) {
            continue;
        }
        score = ecgfed_second_look(qrs->candidate, qrs->candidates, i, caller->work);
        if (score > 0 && ecgfed_qrs_is_strong(qrs, qrs->candidate + i, caller->work)) {
            take_beat(qrs, caller, qrs->candidate + i, score);
        }
    }
    qrs->decided++;
    if (qrs->open && stop - qrs->open_at >= ECGFED_RELATIVE_REFRACTORY) {
        report(qrs, caller);
    }
}

/* Retain the undecided candidates and, as their neighbours, the last four others and the last three likely beats. */
static void forget_candidates(ecgfed_qrs *qrs)
{
    const int32_t begin = qrs->decided * ECGFED_BLOCK;
    int32_t old = 0, beats = 0, remaining = 0;
    while (old < qrs->candidates && qrs->candidate[old].at < begin) {
        old++;
    }
    for (int32_t i = old - 1; i >= 0; i--) {
        const int32_t beat = qrs->candidate[i].score > 0;
        if (old - i > 4 && !(beat && beats < 3)) {
            qrs->candidate[i].at = -1;
        }
        beats += beat;
    }
    for (int32_t i = 0; i < qrs->candidates; i++) {
        if (qrs->candidate[i].at >= 0) {
            if (remaining != i) {
                qrs->candidate[remaining] = qrs->candidate[i];
            }
            remaining++;
        }
    }
    qrs->candidates = remaining;
}

/* Search the next second, and decide on the one two seconds earlier. */
static void look(ecgfed_qrs *qrs, const ecgfed_qrs_caller *caller)
{
    look_at(qrs, qrs->blocks, caller->work);
    qrs->blocks++;
    if (qrs->blocks - BLOCKS_AHEAD > qrs->decided) {
        decide(qrs, caller);
        forget_candidates(qrs);
    }
}

/* Drop the signal that no later decision needs. */
static void forget_signal(ecgfed_qrs *qrs)
{
    const int32_t keep = (qrs->blocks + 1) * ECGFED_BLOCK - 763;
    const int32_t past = keep - qrs->signal_start;
    if (past > 0) {
        (void)memmove(qrs->signal, qrs->signal + past, (size_t)(qrs->count - keep) * sizeof *qrs->signal);
        qrs->signal_start = keep;
    }
}

/* Renumber the 200 Hz samples, so that 32 bits suffice for a segment of any length. */
static void renumber(ecgfed_qrs *qrs)
{
    const int32_t seconds = (qrs->blocks / ECGFED_RENUMBER - 1) * ECGFED_RENUMBER, past = seconds * ECGFED_BLOCK;
    qrs->origin += (int64_t)seconds * ECGFED_FS_HZ;
    qrs->signal_start -= past;
    qrs->count -= past;
    qrs->measured -= seconds;
    qrs->blocks -= seconds;
    qrs->decided -= seconds;
    qrs->open_at = larger(qrs->open_at - past, 0); /* of no use where the last beat is long ago */
    for (int32_t i = 0; i < qrs->candidates; i++) { /* an old one stays beyond the memory */
        qrs->candidate[i].at = larger(qrs->candidate[i].at - past, 0);
    }
}

/* Move the signal to 0 where removed steps have carried it far away: sums over it would run over. No difference between
 * two samples changes. */
static void recentre(ecgfed_qrs *qrs)
{
    const int32_t offset = qrs->last_out;
    if (offset < OFFSET_UV && offset > -OFFSET_UV) {
        return;
    }
    for (int32_t i = 0; i < qrs->count - qrs->signal_start; i++) {
        qrs->signal[i] = minus(qrs->signal[i], offset);
    }
    for (int32_t i = 0; i < 3; i++) {
        qrs->out[i] = minus(qrs->out[i], offset);
    }
    qrs->last_out = 0;
}

/* Sum / length, rounded to the nearest integer, halves to even. */
static int32_t rounded(int64_t sum, int32_t length)
{
    int64_t quotient = sum / length, rest = sum % length;
    if (rest < 0) {
        quotient--;
        rest += length;
    }
    if (2 * rest > length || (2 * rest == length && quotient % 2 != 0)) {
        quotient++;
    }
    return (int32_t)quotient;
}

/* Append the average of the next 5 ms; low and high are its ends, in fifths of a 360 Hz sample. */
static void append(ecgfed_qrs *qrs, int64_t low, int64_t high)
{
    int64_t sum = 0;
    low = low < 0 ? 0 : low;
    for (int32_t back = 0; back < 3; back++) {
        const int64_t from = 5 * (qrs->fed - 1 - back), to = from + 5;
        const int64_t part = (high < to ? high : to) - (low > from ? low : from);
        if (part > 0) {
            sum += part * qrs->out[back];
        }
    }
    qrs->signal[qrs->count - qrs->signal_start] = rounded(sum, (int32_t)(high - low));
    qrs->count++;
}

/* Continue from the last value after missing samples, so that they cause no step. */
static void take_sample(ecgfed_qrs *qrs, int32_t uv, int32_t missing)
{
    int32_t out = qrs->last_out;
    if (!missing) {
        out = qrs->was_missing ? out : plus(out, minus(uv, qrs->last_uv));
        qrs->last_uv = uv;
    }
    qrs->was_missing = missing;
    qrs->last_out = out;
    qrs->out[2] = qrs->out[1];
    qrs->out[1] = qrs->out[0];
    qrs->out[0] = out;
    qrs->fed++;
}

void ecgfed_qrs_push(ecgfed_qrs *qrs, const ecgfed_qrs_caller *caller, int32_t uv, int32_t missing)
{
    int32_t due;
    take_sample(qrs, uv, missing);
    if (5 * qrs->fed < qrs->next_due) {
        return;
    }
    append(qrs, qrs->next_due - 9, qrs->next_due);
    qrs->next_due += 9;
    due = (larger(qrs->blocks, FIRST_BLOCKS - 2) + 1) * ECGFED_BLOCK + ECGFED_LOOK_AHEAD;
    if (qrs->count == due) {
        const int32_t stop = larger(qrs->blocks + 1, FIRST_BLOCKS - 1);
        ecgfed_qrs_measure(qrs, (stop + 1) * ECGFED_BLOCK, caller->work);
        while (qrs->blocks < stop) {
            look(qrs, caller);
        }
        forget_signal(qrs);
        recentre(qrs);
        if (qrs->blocks >= 2 * ECGFED_RENUMBER) {
            renumber(qrs);
        }
    }
}

void ecgfed_qrs_finish(ecgfed_qrs *qrs, const ecgfed_qrs_caller *caller)
{
    const int64_t end = 5 * qrs->fed;
    if (qrs->fed == 0) {
        return;
    }
    if (2 * qrs->next_due - 9 <= 2 * end) { /* the centre of a last, shorter one lies inside */
        append(qrs, qrs->next_due - 9, end);
        qrs->next_due += 9;
    }
    ecgfed_qrs_measure(qrs, qrs->count, caller->work);
    while (qrs->blocks * ECGFED_BLOCK < qrs->count) {
        look(qrs, caller);
    }
    while (qrs->decided < qrs->blocks) {
        decide(qrs, caller);
        forget_candidates(qrs);
    }
    report(qrs, caller);
}
