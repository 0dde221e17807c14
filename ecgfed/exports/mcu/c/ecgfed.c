/* ecgfed: one lead as a stream: gaps, R peaks, windows, RR features, and the prediction for each beat. */
#include "ecgfed_build.h"

#include "ecgfed.h"

#include <math.h>
#include <string.h>

#include "ecgfed_signal.h"
#include "ecgfed_taps.h"

#define LIMIT_UV 1000000 /* values are clipped to 1000 mV */

static void on_peak(void *user, int64_t peak);
static int64_t extremum(void *user, int64_t centre, int32_t up);

static int32_t is_finite(float value)
{
    return value - value == 0.0f; /* neither NAN nor infinite */
}

static ecgfed_qrs_caller caller_of(ecgfed_state *state)
{
    ecgfed_qrs_caller caller;
    caller.on_peak = on_peak;
    caller.extremum = extremum;
    caller.user = state;
    caller.work = &state->work.qrs;
    return caller;
}

void ecgfed_init(ecgfed_state *state, ecgfed_on_beat beat, void *user)
{
    (void)memset(state, 0, sizeof *state);
    ecgfed_flat_begin(&state->flat);
#if ECGFED_RR_VERSION == 4
    ecgfed_context_begin(&state->context);
#endif
    state->on_beat = beat;
    state->user = user;
    state->low_uv = -LIMIT_UV;
    state->high_uv = LIMIT_UV;
}

void ecgfed_announce(ecgfed_state *state, ecgfed_early *early, ecgfed_on_announced on_announced, void *user)
{
    ecgfed_early_init(early, on_announced, user);
    state->early = early;
}

/* Integer microvolts of finite millivolts, clipped. */
static int32_t microvolts(float mv)
{
    return mv > 1000.0f ? LIMIT_UV : mv < -1000.0f ? -LIMIT_UV : (int32_t)lrintf(mv * 1000.0f);
}

void ecgfed_set_rails(ecgfed_state *state, float low_mv, float high_mv)
{
    if (low_mv < high_mv) { /* neither is NAN */
        state->low_uv = microvolts(low_mv);
        state->high_uv = microvolts(high_mv);
    }
}

void ecgfed_set_inference(ecgfed_state *state, ecgfed_inference inference, void *user)
{
    state->inference = inference;
    state->inference_user = user;
}

/* Return a sample of the detector from the ring; its first and last samples continue beyond its ends. */
static int32_t in_ring(const ecgfed_state *state, int64_t at)
{
    const int64_t last = state->qrs.fed - 1;
    const int64_t index = (at < 0 ? 0 : at > last ? last : at) + state->detected_from - state->ring_start;
    return state->ring[index < 0 ? 0 : index];
}

/* Return the highest (or lowest) of the seven samples around `centre`; steps across missing samples do not count. */
static int64_t extremum(void *user, int64_t centre, int32_t up)
{
    const ecgfed_state *state = user;
    const int64_t last = state->qrs.fed - 1;
    int32_t level = 0, best = 0, before = 0;
    int64_t chosen = centre - 3;
    for (int64_t at = centre - 3; at <= centre + 3; at++) {
        const int32_t current = in_ring(state, at);
        if (at > centre - 3 && !((current | before) & 1)) {
            level += current / 2 - before / 2;
        }
        if (at == centre - 3 || (up ? level > best : level < best)) {
            best = level;
            chosen = at;
        }
        before = current;
    }
    return chosen < 0 ? 0 : chosen > last ? last : chosen;
}

/* One sample of the filtered signal; the taps are symmetric. */
static float filtered(const int32_t *middle)
{
    float sum = ecgfed_taps[0] * (float)*middle;
    for (int32_t i = 1; i <= ECGFED_HALF_TAPS; i++) {
        sum += ecgfed_taps[i] * (float)(middle[-i] + middle[i]);
    }
    return sum;
}

/* The same near an end of the segment, beyond which the signal is constant. */
static float filtered_at_end(const ecgfed_state *state, int32_t index)
{
    const int32_t last = state->ring_count - 1;
    float sum = ecgfed_taps[0] * (float)state->ring[index];
    for (int32_t i = 1; i <= ECGFED_HALF_TAPS; i++) {
        const int32_t before = index - i < 0 ? 0 : index - i, after = index + i > last ? last : index + i;
        sum += ecgfed_taps[i] * (float)(state->ring[before] + state->ring[after]);
    }
    return sum;
}

/* Return what was stored around an R peak. */
static ecgfed_surroundings around(const ecgfed_state *state, int64_t peak)
{
    ecgfed_surroundings samples;
    samples.ring = state->ring;
    samples.count = state->ring_count;
    samples.peak = (int32_t)(peak - state->ring_start);
    samples.gap_before = state->begin > 0;
    samples.gap_after = state->waiting > ECGFED_BRIDGE;
    samples.low_uv = state->low_uv;
    samples.high_uv = state->high_uv;
    return samples;
}

/* Cut the window of a beat: 0 mV beyond the ends of the segment. */
static void cut_window(const ecgfed_state *state, int64_t peak, ecgfed_beat *beat)
{
    const int64_t end = state->ring_start + state->ring_count;
    for (int32_t i = 0; i < ECGFED_WINDOW; i++) {
        const int64_t at = peak - ECGFED_R_INDEX + i, index = at - state->ring_start;
        float mv = 0.0f;
        if (at < 0 || at >= end) {
            beat->padded = 1;
        } else if (index >= ECGFED_HALF_TAPS && index + ECGFED_HALF_TAPS < state->ring_count) {
            mv = filtered(state->ring + index);
        } else {
            mv = filtered_at_end(state, (int32_t)index);
        }
        beat->window_mv[i] = mv;
    }
}

/* Leave a beat without class, for a reason. */
static void unclassify(ecgfed_beat *beat, int32_t reason)
{
    (void)memset(beat->probabilities, 0, sizeof beat->probabilities);
    beat->label = ECGFED_UNCLASSIFIED;
    beat->probability = 0.0f;
    beat->unclassified = reason;
}

/* Compute the label and its probability; the logits are replaced by the probabilities. */
static void classify(ecgfed_beat *beat)
{
    float *probability = beat->probabilities, sum = 0.0f, highest;
    for (int32_t i = 0; i < ecgfed_net.classes; i++) {
        if (!is_finite(probability[i])) {
            unclassify(beat, ECGFED_NO_LOGITS);
            return;
        }
    }
    beat->label = 0;
    for (int32_t i = 1; i < ecgfed_net.classes; i++) {
        if (probability[i] > probability[beat->label]) {
            beat->label = i;
        }
    }
    highest = probability[beat->label];
    for (int32_t i = 0; i < ecgfed_net.classes; i++) {
        probability[i] = expf((probability[i] - highest) / ecgfed_net.temperature);
        sum += probability[i];
    }
    for (int32_t i = 0; i < ecgfed_net.classes; i++) {
        probability[i] /= sum;
    }
    beat->probability = probability[beat->label];
}

static void count(ecgfed_counters *counters, const ecgfed_beat *beat)
{
    counters->beats++;
    counters->last_beat = (uint64_t)beat->sample;
    counters->padded += beat->padded ? 1U : 0U;
    if (beat->unclassified == ECGFED_NO_LOGITS) {
        counters->no_logits++;
    } else if (beat->unclassified == ECGFED_NO_SIGNAL) {
        counters->no_signal++;
    } else {
        counters->label[beat->label]++;
        counters->uncertain += beat->uncertain ? 1U : 0U;
        counters->far += beat->far ? 1U : 0U;
    }
}

/* Run the inference on a beat that shows a signal. */
static void infer(ecgfed_state *state, ecgfed_beat *beat)
{
    for (int32_t i = 0; i < ECGFED_MAX_CLASSES; i++) { /* an inference that writes too few leaves the rest NAN */
        beat->probabilities[i] = NAN;
    }
    if (state->inference) {
        state->inference(state->inference_user, beat->window_mv, beat->rr_s, beat->probabilities);
    } else {
        ecgfed_net_logits(&state->work.net, beat->window_mv, beat->rr_s, beat->probabilities);
    }
    classify(beat);
}

/* Classify and report a beat whose window and intervals are known. */
static void predict(ecgfed_state *state, ecgfed_beat *beat)
{
    if (beat->unclassified) {
        unclassify(beat, beat->unclassified);
    } else {
        infer(state, beat);
    }
    beat->far = ecgfed_net_out_of_distribution(&state->work.net, beat->window_mv);
    beat->uncertain = beat->far || beat->unclassified || beat->probability < ecgfed_net.threshold ||
                      ecgfed_net.threshold >= 1.0f;
    count(&state->counters, beat);
    state->on_beat(state->user, beat);
}

#if ECGFED_RR_VERSION == 4

/* Return the samples from a beat to the next one, 0 where the interval is void. */
static int32_t interval_between(const ecgfed_state *state, int64_t earlier, int64_t later,
                                const ecgfed_surroundings *samples)
{
    const int64_t interval = later - earlier;
    const int32_t is_void = interval > ECGFED_LONGEST_INTERVAL || earlier < state->lost_until ||
                            ecgfed_hides_beat(samples, (int32_t)interval, ECGFED_HIDES);
    return is_void ? 0 : (int32_t)interval;
}

/* Report the beat that waits, if any, which a beat follows; write the features of that beat. */
static void follow(ecgfed_state *state, int64_t peak, ecgfed_beat *beat)
{
    const ecgfed_surroundings samples = around(state, peak);
    int32_t interval = 0, usable;
    if (state->beats) {
        interval = interval_between(state, state->pending[0].sample, beat->sample, &samples);
        ecgfed_context_next(&state->context, interval, state->pending[0].rr_s);
        predict(state, state->pending);
    }
    usable = !beat->padded && !ecgfed_hides_signal(&samples);
    ecgfed_context_beat(&state->context, beat->window_mv, interval, usable, state->work.net.second, beat->rr_s);
}

/* Report the last beat, which nothing follows. */
static void complete_last(ecgfed_state *state)
{
    predict(state, state->pending);
}

#else

static float median_of_intervals(const ecgfed_state *state)
{
    float sorted[ECGFED_RR_HISTORY] = {0};
    const int32_t count = state->intervals < ECGFED_RR_HISTORY ? state->intervals : ECGFED_RR_HISTORY;
    for (int32_t i = 0; i < count; i++) {
        const float value = state->interval[i];
        int32_t j = i;
        for (; j > 0 && sorted[j - 1] > value; j--) {
            sorted[j] = sorted[j - 1];
        }
        sorted[j] = value;
    }
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0f;
}

/* Complete the pending beat with the next interval, or with the previous one if no beat follows. */
static void complete(ecgfed_state *state, float next_s, int32_t followed)
{
    ecgfed_beat *beat = state->pending;
    if (state->beats == 1) { /* the first beat has no previous interval */
        beat->rr_s[0] = followed ? next_s : 0.0f;
        beat->rr_s[2] = beat->rr_s[0];
    }
    beat->rr_s[1] = followed ? next_s : beat->rr_s[0];
    beat->rr_s[3] = beat->rr_s[2] > 0.0f ? beat->rr_s[0] / beat->rr_s[2] : 1.0f;
    predict(state, beat);
}

/* Report the beat that waits, if any, which a beat follows; write the features of that beat. */
static void follow(ecgfed_state *state, int64_t peak, ecgfed_beat *beat)
{
    (void)peak;
    if (state->beats) {
        const float interval = (float)(beat->sample - state->pending[0].sample) / (float)ECGFED_FS_HZ;
        complete(state, interval, 1);
        state->interval[state->intervals % ECGFED_RR_HISTORY] = interval;
        state->intervals = state->intervals == 2 * ECGFED_RR_HISTORY - 1 ? ECGFED_RR_HISTORY : state->intervals + 1;
        beat->rr_s[0] = interval;
        beat->rr_s[2] = median_of_intervals(state);
    }
}

/* Report the last beat, which nothing follows. */
static void complete_last(ecgfed_state *state)
{
    complete(state, 0.0f, 0);
}

#endif

/* Called by the detector: cut the window while its samples are stored, and complete the previous beat. */
static void on_peak(void *user, int64_t peak)
{
    ecgfed_state *state = user;
    ecgfed_beat *beat = state->pending + (state->beats ? 1 : 0);
    ecgfed_surroundings samples;
    (void)memset(beat, 0, sizeof *beat);
    peak += state->detected_from;
    beat->sample = state->begin + peak;
    beat->beat = state->early ? ecgfed_early_decide(state->early, beat->sample, state->sample_count) : state->next_beat;
    state->next_beat++;
    cut_window(state, peak, beat);
    samples = around(state, peak);
    beat->unclassified = ecgfed_without_signal(&samples, beat->window_mv) ? ECGFED_NO_SIGNAL : 0;
    follow(state, peak, beat);
    if (state->beats) {
        state->pending[0] = *beat;
    }
    state->beats = state->beats ? 2 : 1;
}

/* Append a sample of the segment to the ring; `mark` is 1 if it is missing for the detector. */
static void store_sample(ecgfed_state *state, int32_t uv, int32_t mark)
{
    if (state->ring_count == ECGFED_RING) {
        const int32_t past = ECGFED_RING - ECGFED_RING_KEEP;
        (void)memmove(state->ring, state->ring + past, ECGFED_RING_KEEP * sizeof *state->ring);
        state->ring_start += past;
        state->ring_count -= past;
    }
    state->ring[state->ring_count++] = 2 * uv + mark;
}

static void end_detection(ecgfed_state *state)
{
    if (state->detecting) {
        const ecgfed_qrs_caller caller = caller_of(state);
        ecgfed_qrs_finish(&state->qrs, &caller);
        state->detecting = 0;
    }
    state->unseen = 0;
}

/* Feed the detector, which treats a flat line as missing samples: a few are bridged, more end its segment. */
static void detect(ecgfed_state *state, int32_t uv, int32_t missing)
{
    const ecgfed_qrs_caller caller = caller_of(state);
    if (missing) {
        if (state->detecting && ++state->unseen > ECGFED_BRIDGE) {
            end_detection(state);
        }
        return;
    }
    if (!state->detecting) {
        ecgfed_qrs_begin(&state->qrs);
        state->detecting = 1;
        state->detected_from = state->sample_count - state->begin;
        if (state->early) {
            ecgfed_early_begin(state->early);
        }
    }
    for (; state->unseen; state->unseen--) {
        ecgfed_qrs_push(&state->qrs, &caller, 0, 1);
    }
    ecgfed_qrs_push(&state->qrs, &caller, uv, 0);
}

static void end_stretch(ecgfed_state *state)
{
    end_detection(state);
    state->in_stretch = 0;
    state->waiting = 0;
}

/* Fill a short gap with a straight line to the new sample; microvolts are rounded down, since the ring's mark adds half
 * of one. */
static void bridge(ecgfed_state *state, int32_t uv)
{
    const int32_t steps = state->waiting + 1, from = state->last_uv;
    for (int32_t i = 1; i < steps; i++) {
        const int32_t rise = (uv - from) * i;
        store_sample(state, from + (rise >= 0 ? rise / steps : -((steps - 1 - rise) / steps)), 1);
    }
    state->waiting = 0;
}

/* Announce R peaks where that is due. */
static void look_early(ecgfed_state *state)
{
    if (!state->early || !ecgfed_early_is_due(state->sample_count)) {
        return;
    }
    ecgfed_early_expire(state->early, state->sample_count, 0);
    if (state->detecting) {
        const ecgfed_qrs_caller caller = caller_of(state);
        ecgfed_early_look(state->early, &state->qrs, &caller, state->begin + state->detected_from, state->sample_count);
    }
}

static void take_missing(ecgfed_state *state)
{
    (void)ecgfed_is_flat(&state->flat, 0, 1);
    state->sample_count++;
    state->counters.samples++;
    state->counters.missing++;
    if (state->in_stretch) {
        state->waiting++;
        detect(state, 0, 1);
        if (state->waiting > ECGFED_BRIDGE) {
            end_stretch(state);
        }
    }
    look_early(state);
}

void ecgfed_push_uv(ecgfed_state *state, int32_t uv, int32_t missing)
{
    int32_t flat;
    uv = uv > LIMIT_UV ? LIMIT_UV : uv < -LIMIT_UV ? -LIMIT_UV : uv;
    if (state->on_sample) {
        state->on_sample(state->user, uv, missing);
    }
    if (missing) {
        take_missing(state);
        return;
    }
    flat = ecgfed_is_flat(&state->flat, uv, 0);
    state->counters.samples++;
    state->counters.saturated += uv <= state->low_uv || uv >= state->high_uv ? 1U : 0U;
    state->counters.flat += flat ? 1U : 0U;
    if (!state->in_stretch) {
        state->counters.stretches++;
        state->in_stretch = 1;
#if ECGFED_RR_VERSION == 4
        if (state->sample_count - state->begin - state->ring_start - state->ring_count >= ECGFED_HIDES) {
            state->lost_until = state->sample_count;
        }
#endif
        state->begin = state->sample_count;
        state->ring_start = 0;
        state->ring_count = 0;
    }
    if (state->waiting) {
        bridge(state, uv);
    }
    state->last_uv = uv;
    store_sample(state, uv, flat && state->detecting);
    detect(state, uv, flat);
    state->sample_count++;
    look_early(state);
}

void ecgfed_push(ecgfed_state *state, const float *mv, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const int32_t missing = !is_finite(mv[i]);
        ecgfed_push_uv(state, missing ? 0 : microvolts(mv[i]), missing);
    }
}

void ecgfed_finish(ecgfed_state *state)
{
    end_stretch(state);
    if (state->beats) {
        complete_last(state);
        state->beats = 0;
    }
    if (state->early) {
        ecgfed_early_expire(state->early, state->sample_count, 1);
    }
}
