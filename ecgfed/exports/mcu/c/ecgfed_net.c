/* ecgfed: the int8 runtime of the beat's net. */
#include "ecgfed_net.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define ECGFED_MODEL_DATA
#include "model.h" /* once more, for the numbers */

#define WINDOW_VARIANCE_FLOOR 1e-4f
#define NORM_EPS 1e-5f
#define RR_LIMIT 5.0f
#define ECGFED_SHAPE_STEPS 64 /* of four samples each */

/* A value as a layer reads it; halves go to the even number, as rintf has them. */
static int8_t quantised(float value, float scale, int32_t zero)
{
    float steps = value / scale;
    steps = steps > 512.0f ? 512.0f : steps < -512.0f ? -512.0f : steps;
    zero += (int32_t)((steps + 12582912.0f) - 12582912.0f);
    return (int8_t)(zero > 127 ? 127 : zero < -128 ? -128 : zero);
}

/* Quantise `steps` rows for a layer, with the zeros of its padding before and after. */
static void read_by(const ecgfed_layer *layer, const float *in, int32_t steps, int8_t *bytes)
{
    const int32_t pad = layer->kernel / 2 * layer->in, count = steps * layer->in;
    memset(bytes, (int)layer->input_zero, (size_t)pad);
    for (int32_t i = 0; i < count; i++) {
        bytes[pad + i] = quantised(in[i], layer->input_scale, layer->input_zero);
    }
    memset(bytes + pad + count, (int)layer->input_zero, (size_t)pad);
}

/* Two rows of weights times what they read: the bytes are loaded once for both. */
static void dot_two(const int8_t *one, const int8_t *other, const int8_t *bytes, int32_t count, int32_t *sums)
{
    int32_t first = 0, second = 0;
    for (; count >= 4; count -= 4, one += 4, other += 4, bytes += 4) {
        const int32_t a = bytes[0], b = bytes[1], c = bytes[2], d = bytes[3];
        first += one[0] * a + one[1] * b + one[2] * c + one[3] * d;
        second += other[0] * a + other[1] * b + other[2] * c + other[3] * d;
    }
    for (; count > 0; count--, bytes++) {
        first += *one++ * *bytes;
        second += *other++ * *bytes;
    }
    sums[0] = first;
    sums[1] = second;
}

/* Run a layer over rows of bytes, the first of which is the first that the first step reads; out is [steps][out]. */
static void run(const ecgfed_layer *layer, const int8_t *bytes, int32_t steps, float *out)
{
    const int32_t depth = layer->kernel * layer->in;
    for (int32_t t = 0; t < steps; t++) {
        const int8_t *row = bytes + t * layer->stride * layer->in;
        for (int32_t o = 0; o < layer->out; o += 2) {
            const int32_t last = o + 1 < layer->out ? o + 1 : o; /* an odd number of outputs: the last one twice */
            int32_t sums[2];
            dot_two(layer->weight + o * depth, layer->weight + last * depth, row, depth, sums);
            out[o] = (float)(sums[0] + layer->offset[o]) * layer->scale[o];
            out[last] = (float)(sums[1] + layer->offset[last]) * layer->scale[last];
        }
        for (int32_t o = 0; layer->bias && o < layer->out; o++) {
            out[o] += layer->bias[o];
        }
        out += layer->out;
    }
}

/* A linear layer on one row. */
static void linear(const ecgfed_layer *layer, const float *in, int8_t *bytes, float *out)
{
    read_by(layer, in, 1, bytes);
    run(layer, bytes, 1, out);
}

static void relu(float *values, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        values[i] = values[i] > 0.0f ? values[i] : 0.0f;
    }
}

/* Normalise one group of channels of [steps][channels] by its own mean and deviation. */
static void normalise_group(const ecgfed_norm *norm, float *values, int32_t steps, int32_t channels, int32_t first)
{
    const int32_t each = channels / ECGFED_GROUPS;
    const float count = (float)(steps * each);
    float mean = 0.0f, power = 0.0f, factor;
    for (int32_t t = 0; t < steps; t++) {
        for (int32_t c = first; c < first + each; c++) {
            mean += values[t * channels + c];
        }
    }
    mean /= count;
    for (int32_t t = 0; t < steps; t++) {
        for (int32_t c = first; c < first + each; c++) {
            const float apart = values[t * channels + c] - mean;
            power += apart * apart;
        }
    }
    factor = 1.0f / sqrtf(power / count + NORM_EPS);
    for (int32_t t = 0; t < steps; t++) {
        for (int32_t c = first; c < first + each; c++) {
            float *value = values + t * channels + c;
            *value = (*value - mean) * factor * norm->weight[c] + norm->bias[c];
        }
    }
}

static void normalise(const ecgfed_norm *norm, float *values, int32_t steps, int32_t channels)
{
    if (norm->weight == NULL) {
        return;
    }
    if (norm->grouped) {
        for (int32_t first = 0; first < channels; first += channels / ECGFED_GROUPS) {
            normalise_group(norm, values, steps, channels, first);
        }
        return;
    }
    for (int32_t i = 0; i < steps * channels; i++) {
        values[i] = values[i] * norm->weight[i % channels] + norm->bias[i % channels];
    }
}

/* The window less its mean, over its deviation. */
static void standardise(const float *window_mv, float *out)
{
    float mean = 0.0f, power = 0.0f, factor;
    for (int32_t i = 0; i < ECGFED_WINDOW; i++) {
        mean += window_mv[i];
    }
    mean /= (float)ECGFED_WINDOW;
    for (int32_t i = 0; i < ECGFED_WINDOW; i++) {
        out[i] = window_mv[i] - mean;
        power += out[i] * out[i];
    }
    factor = 1.0f / sqrtf(power / (float)ECGFED_WINDOW + WINDOW_VARIANCE_FLOOR);
    for (int32_t i = 0; i < ECGFED_WINDOW; i++) {
        out[i] *= factor;
    }
}

int32_t ecgfed_net_far(ecgfed_net_work *work, const float *window_mv)
{
    const ecgfed_model *net = &ecgfed_net;
    float *shape = work->other, nearest = 0.0f;
    standardise(window_mv, work->other);
    for (int32_t i = 0; i < ECGFED_SHAPE_STEPS; i++) {
        const float *four = work->other + 4 * i;
        shape[i] = (four[0] + four[1] + four[2] + four[3]) / 4.0f;
    }
    for (int32_t k = 0; k < net->typicals; k++) {
        const int16_t *typical = net->typical + k * ECGFED_SHAPE_STEPS;
        float sum = 0.0f;
        for (int32_t i = 0; i < ECGFED_SHAPE_STEPS; i++) {
            const float apart = shape[i] - net->typical_scale[k] * (float)typical[i];
            sum += apart * apart;
        }
        nearest = k == 0 || sum < nearest ? sum : nearest;
    }
    return nearest > net->far_threshold * (float)ECGFED_SHAPE_STEPS;
}

/* A residual block on work->one, [steps][in], in place; returns the steps that are left. */
static int32_t residual(const ecgfed_residual *block, ecgfed_net_work *work, int32_t steps)
{
    const ecgfed_layer *conv0 = &block->conv0;
    const int32_t left = (steps + conv0->stride - 1) / conv0->stride, count = left * conv0->out;
    read_by(conv0, work->one, steps, work->bytes);
    run(conv0, work->bytes, left, work->one);
    run(&block->skip, work->bytes + conv0->kernel / 2 * conv0->in, left, work->other);
    normalise(&block->norm0, work->one, left, conv0->out);
    relu(work->one, count);
    read_by(&block->conv1, work->one, left, work->bytes);
    run(&block->conv1, work->bytes, left, work->one);
    normalise(&block->norm1, work->one, left, conv0->out);
    for (int32_t i = 0; i < count; i++) {
        work->one[i] += work->other[i];
    }
    relu(work->one, count);
    return left;
}

/* Add what the RR intervals say to the features. */
static void add_rr(const ecgfed_layer *rr, ecgfed_net_work *work, const float *rr_s, float *features, float *made)
{
    static const float centre[ECGFED_RR] = {0.8f, 0.8f, 0.8f, 1.0f};
    float scaled[ECGFED_RR];
    for (int32_t i = 0; i < ECGFED_RR; i++) {
        const float value = (rr_s[i] - centre[i]) / 0.3f;
        scaled[i] = value > RR_LIMIT ? RR_LIMIT : value < -RR_LIMIT ? -RR_LIMIT : value;
    }
    linear(rr, scaled, work->bytes, made);
    for (int32_t c = 0; c < rr->out; c++) {
        features[c] += made[c];
    }
}

/* Mean over time of work->one, [steps][channels]. */
static void mean_over_time(const float *values, int32_t steps, int32_t channels, float share, float *features)
{
    for (int32_t c = 0; c < channels; c++) {
        float sum = 0.0f;
        for (int32_t t = 0; t < steps; t++) {
            sum += values[t * channels + c];
        }
        features[c] = share * (sum / (float)steps);
    }
}

void ecgfed_net_logits(ecgfed_net_work *work, const float *window_mv, const float *rr_s, float *logits)
{
    const ecgfed_model *net = &ecgfed_net;
    const int32_t stride = net->stem.stride, features_of = net->block[1].conv1.out;
    int32_t steps = (ECGFED_WINDOW + stride - 1) / stride;
    float *features = work->other, *made = work->one;
    standardise(window_mv, work->other);
    read_by(&net->stem, work->other, ECGFED_WINDOW, work->bytes);
    run(&net->stem, work->bytes, steps, work->one);
    normalise(&net->stem_norm, work->one, steps, net->stem.out);
    relu(work->one, steps * net->stem.out);
    for (int32_t i = 0; i < 2; i++) {
        steps = residual(net->block + i, work, steps);
    }
    mean_over_time(work->one, steps, features_of, net->window_share, features);
    if (net->rr) {
        add_rr(net->rr, work, rr_s, features, made);
    }
    if (net->hidden) {
        linear(net->hidden, features, work->bytes, made);
        relu(made, net->hidden->out);
        linear(&net->out, made, work->bytes, logits);
    } else {
        linear(&net->out, features, work->bytes, logits);
    }
    if (net->personal) {
        linear(net->personal, features, work->bytes, made);
        for (int32_t i = 0; i < net->classes; i++) {
            logits[i] += made[i];
        }
    }
}
