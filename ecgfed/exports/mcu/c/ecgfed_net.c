/* ecgfed: the int8 runtime of the beat's net. */
#include "ecgfed_build.h"

#include "ecgfed_net.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define ECGFED_MODEL_DATA
#include "model.h" /* once more, for the numbers */

#define WINDOW_VARIANCE_FLOOR 1e-4f
#define NORM_EPS 1e-5f
#if ECGFED_RR_VERSION != 4
#define RR_LIMIT 5.0f
#endif
#define ECGFED_SHAPE_STEPS 64 /* of four samples each */

/* Quantize a value for a layer; halves round to even, as rintf does. */
static int8_t quantised(float value, float scale, int32_t zero)
{
    float steps = value / scale;
    steps = steps > 512.0f ? 512.0f : steps < -512.0f ? -512.0f : steps;
    zero += (int32_t)((steps + 12582912.0f) - 12582912.0f);
    return (int8_t)(zero > 127 ? 127 : zero < -128 ? -128 : zero);
}

/* Quantize `steps` rows for a layer, with its zero padding before and after. */
static void read_by(const ecgfed_layer *layer, const float *in, int32_t steps, int8_t *bytes)
{
    const int32_t pad = layer->kernel / 2 * layer->in, count = steps * layer->in;
    (void)memset(bytes, (int)layer->input_zero, (size_t)pad);
    for (int32_t i = 0; i < count; i++) {
        bytes[pad + i] = quantised(in[i], layer->input_scale, layer->input_zero);
    }
    (void)memset(bytes + pad + count, (int)layer->input_zero, (size_t)pad);
}

/* Dot products of two rows of weights with the same input, which is loaded once for both. */
static void dot_two(const int8_t *row, const int8_t *next_row, const int8_t *bytes, int32_t count, int32_t *sums)
{
    int32_t first = 0, second = 0;
    for (; count >= 4; count -= 4, row += 4, next_row += 4, bytes += 4) {
        const int32_t a = bytes[0], b = bytes[1], c = bytes[2], d = bytes[3];
        first += row[0] * a + row[1] * b + row[2] * c + row[3] * d;
        second += next_row[0] * a + next_row[1] * b + next_row[2] * c + next_row[3] * d;
    }
    for (; count > 0; count--, bytes++) {
        first += *row++ * *bytes;
        second += *next_row++ * *bytes;
    }
    sums[0] = first;
    sums[1] = second;
}

/* Run a layer over rows of bytes, starting with the first row that the first step reads; out is [steps][out]. */
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

/* Normalise one group of channels of [steps][channels] by its mean and standard deviation. */
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
            const float deviation = values[t * channels + c] - mean;
            power += deviation * deviation;
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

static int32_t is_finite(float value)
{
    return value - value == 0.0f;
}

static int32_t all_finite(const float *values, int32_t count)
{
    int32_t finite = 1;
    for (int32_t i = 0; i < count; i++) {
        finite = finite && is_finite(values[i]);
    }
    return finite;
}

/* Subtract the mean of the window and divide by its standard deviation; return whether both are finite. */
static int32_t standardise(const float *window_mv, float *out)
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
    return is_finite(power);
}

int32_t ecgfed_net_out_of_distribution(ecgfed_net_work *work, const float *window_mv)
{
    const ecgfed_model *net = &ecgfed_net;
    float *shape = work->second, nearest = 0.0f;
    if (!standardise(window_mv, work->second)) {
        return 1;
    }
    for (int32_t i = 0; i < ECGFED_SHAPE_STEPS; i++) {
        const float *four = work->second + 4 * i;
        shape[i] = (four[0] + four[1] + four[2] + four[3]) / 4.0f;
    }
    for (int32_t k = 0; k < net->prototypes; k++) {
        const int16_t *prototype = net->prototype + k * ECGFED_SHAPE_STEPS;
        float sum = 0.0f;
        for (int32_t i = 0; i < ECGFED_SHAPE_STEPS; i++) {
            const float difference = shape[i] - net->prototype_scale[k] * (float)prototype[i];
            sum += difference * difference;
        }
        nearest = k == 0 || sum < nearest ? sum : nearest;
    }
    return nearest > net->ood_threshold * (float)ECGFED_SHAPE_STEPS;
}

/* A residual block on work->first, [steps][in], in place; returns the number of output steps. */
static int32_t residual(const ecgfed_residual *block, ecgfed_net_work *work, int32_t steps)
{
    const ecgfed_layer *conv0 = &block->conv0;
    const int32_t out_steps = (steps + conv0->stride - 1) / conv0->stride, count = out_steps * conv0->out;
    read_by(conv0, work->first, steps, work->bytes);
    run(conv0, work->bytes, out_steps, work->first);
    run(&block->skip, work->bytes + conv0->kernel / 2 * conv0->in, out_steps, work->second);
    normalise(&block->norm0, work->first, out_steps, conv0->out);
    relu(work->first, count);
    read_by(&block->conv1, work->first, out_steps, work->bytes);
    run(&block->conv1, work->bytes, out_steps, work->first);
    normalise(&block->norm1, work->first, out_steps, conv0->out);
    for (int32_t i = 0; i < count; i++) {
        work->first[i] += work->second[i];
    }
    relu(work->first, count);
    return out_steps;
}

/* Add the RR branch to the features. */
static void add_rr(const ecgfed_layer *rr, ecgfed_net_work *work, const float *rr_s, float *features,
                   float *rr_features)
{
    float scaled[ECGFED_RR];
    for (int32_t i = 0; i < ECGFED_RR; i++) {
#if ECGFED_RR_VERSION == 4
        static const float scale[ECGFED_RR] = {1.0f, 1.0f, 1.0f, 1.0f, 2.0f, 3.0f, 1.7f, 1.3f,
                                               3.0f, 3.0f, 5.5f, 1.3f, 2.0f, 2.0f, 2.0f, 5.0f};
        scaled[i] = rr_s[i] * scale[i];
#else
        static const float centre[ECGFED_RR] = {0.8f, 0.8f, 0.8f, 1.0f};
        const float value = (rr_s[i] - centre[i]) / 0.3f;
        scaled[i] = value > RR_LIMIT ? RR_LIMIT : value < -RR_LIMIT ? -RR_LIMIT : value;
#endif
    }
    linear(rr, scaled, work->bytes, rr_features);
    for (int32_t c = 0; c < rr->out; c++) {
        features[c] += rr_features[c];
    }
}

/* Mean over time of work->first, [steps][channels]. */
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
    const int32_t stride = net->stem.stride, channels = net->block[1].conv1.out;
    int32_t steps = (ECGFED_WINDOW + stride - 1) / stride;
    float *features = work->second, *hidden_out = work->first;
    if (!standardise(window_mv, work->second) || (net->rr && !all_finite(rr_s, ECGFED_RR))) {
        for (int32_t i = 0; i < net->classes; i++) {
            logits[i] = NAN;
        }
        return;
    }
    read_by(&net->stem, work->second, ECGFED_WINDOW, work->bytes);
    run(&net->stem, work->bytes, steps, work->first);
    normalise(&net->stem_norm, work->first, steps, net->stem.out);
    relu(work->first, steps * net->stem.out);
    for (int32_t i = 0; i < 2; i++) {
        steps = residual(net->block + i, work, steps);
    }
    mean_over_time(work->first, steps, channels, net->window_share, features);
    if (net->rr) {
        add_rr(net->rr, work, rr_s, features, hidden_out);
    }
    if (net->hidden) {
        linear(net->hidden, features, work->bytes, hidden_out);
        relu(hidden_out, net->hidden->out);
        linear(&net->out, hidden_out, work->bytes, logits);
    } else {
        linear(&net->out, features, work->bytes, logits);
    }
    if (net->personal) {
        linear(net->personal, features, work->bytes, hidden_out);
        for (int32_t i = 0; i < net->classes; i++) {
            logits[i] += hidden_out[i];
        }
    }
}
