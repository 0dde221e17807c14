/* ecgfed: the beat's net in int8. Weights are int8 with a scale for each output channel; what a layer reads is int8 with
 * one scale and zero point; products are summed in int32. Everything between the layers is float, so that the ONNX form
 * of the bundle (QuantizeLinear and DequantizeLinear before each Conv and Gemm) means the same numbers.
 */
#ifndef ECGFED_NET_H
#define ECGFED_NET_H

#include <stdint.h>

#include "model.h" /* sizes; the numbers themselves stand in ecgfed_net.c */

#ifdef __cplusplus
extern "C" {
#endif

#define ECGFED_WINDOW 256
#define ECGFED_R_INDEX 100
#define ECGFED_RR 4
#define ECGFED_GROUPS 8

/* A convolution over time, or a linear layer (one step, kernel 1): [out][kernel][in]. */
typedef struct {
    const int8_t *weight;
    const float *scale;    /* of each output: input scale times weight scale */
    const int32_t *offset; /* of each output: minus the zero point times the sum of its weights */
    const float *bias;     /* of each output, or NULL */
    float input_scale;
    int32_t input_zero;
    int32_t in, out, kernel, stride;
} ecgfed_layer;

/* What follows a convolution: GroupNorm over eight groups, or a factor and a shift for each channel, or nothing. */
typedef struct {
    const float *weight;
    const float *bias;
    int32_t grouped;
} ecgfed_norm;

typedef struct {
    ecgfed_layer conv0, conv1, skip;
    ecgfed_norm norm0, norm1;
} ecgfed_residual;

typedef struct {
    ecgfed_layer stem;
    ecgfed_norm stem_norm;
    ecgfed_residual block[2];
    const ecgfed_layer *rr;       /* NULL where the net looks at the window alone */
    const ecgfed_layer *hidden;   /* NULL for a head of one layer */
    ecgfed_layer out;
    const ecgfed_layer *personal; /* a second head whose logits are added, or NULL */
    float window_share;           /* how much the window counts beside RR */
    int32_t classes;
    float temperature, threshold;
    const int16_t *typical;       /* [typicals][64]: shapes of training beats, in steps of typical_scale; or NULL */
    const float *typical_scale;   /* [typicals] */
    int32_t typicals;
    float far_threshold;          /* the mean square from the nearest of them above which a beat is far */
} ecgfed_model;

extern const ecgfed_model ecgfed_net;
extern const char *const ecgfed_class_names[]; /* one for each class, and last that of an unclassified beat */
extern const char ecgfed_model_about[];

/* Memory that is needed while a beat is classified. */
typedef struct {
    float one[ECGFED_FLOATS_ONE];
    float other[ECGFED_FLOATS_OTHER];
    int8_t bytes[ECGFED_BYTES];
} ecgfed_net_work;

/* Whether a window (as below) looks like none of the training; 0 where the model says nothing of it. */
int32_t ecgfed_net_far(ecgfed_net_work *work, const float *window_mv);

/* The logits (classes) of a window of 256 samples in millivolt, filtered and not normalised, and its RR features. */
void ecgfed_net_logits(ecgfed_net_work *work, const float *window_mv, const float *rr_s, float *logits);

#ifdef __cplusplus
}
#endif

#endif
