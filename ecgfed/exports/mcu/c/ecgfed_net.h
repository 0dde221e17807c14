/* ecgfed: the beat classifier in int8. Weights are int8 with one scale per output channel; layer inputs are int8
 * with one scale and zero point; products are summed in int32. Everything between the layers is float, as in the ONNX
 * graphs of the bundle (QuantizeLinear and DequantizeLinear before each Conv and Gemm).
 */
#ifndef ECGFED_NET_H
#define ECGFED_NET_H

#include <stdint.h>

#include "model.h" /* sizes; ecgfed_net.c includes the parameters */

#ifdef __cplusplus
extern "C" {
#endif

#define ECGFED_WINDOW 256
#define ECGFED_R_INDEX 100
#if ECGFED_RR_VERSION == 4 /* of the RR features */
#define ECGFED_RR 16
#else
#define ECGFED_RR 4
#endif
#define ECGFED_GROUPS 8

/* A convolution over time, or a linear layer (one step, kernel 1); weights are [out][kernel][in]. */
typedef struct {
    const int8_t *weight;
    const float *scale;    /* per output: input scale times weight scale */
    const int32_t *offset; /* per output: minus the zero point times the sum of its weights */
    const float *bias;     /* per output, or NULL */
    float input_scale;
    int32_t input_zero;
    int32_t in, out, kernel, stride;
} ecgfed_layer;

/* After a convolution: GroupNorm over eight groups, a factor and a shift per channel, or nothing. */
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
    const ecgfed_layer *rr;       /* NULL for a net without RR features */
    const ecgfed_layer *hidden;   /* NULL for a head of one layer */
    ecgfed_layer out;
    const ecgfed_layer *personal; /* a second head whose logits are added, or NULL */
    float window_share;           /* weight of the window branch relative to RR */
    int32_t classes;
    float temperature, threshold;
    const int16_t *prototype;     /* [prototypes][64]: shapes of training beats, times prototype_scale; or NULL */
    const float *prototype_scale; /* [prototypes] */
    int32_t prototypes;
    float ood_threshold;          /* mean squared distance to the nearest prototype above which a beat is
                                   * out of distribution */
} ecgfed_model;

extern const ecgfed_model ecgfed_net_built_in; /* compiled into the firmware */
extern const ecgfed_model *ecgfed_net_in_use;  /* that, or an image (ecgfed_image.h) */
#define ecgfed_net (*ecgfed_net_in_use)
extern const char *const ecgfed_class_names[]; /* one per class, then that of an unclassified beat */
extern const char ecgfed_model_metadata[];

/* Deprecated since 0.3, removed in 0.5. */
#define ecgfed_model_about ecgfed_model_metadata
#define ecgfed_net_far ecgfed_net_out_of_distribution

/* Scratch memory for the classification of a beat. */
typedef struct {
    float first[ECGFED_FLOATS_FIRST];
    float second[ECGFED_FLOATS_SECOND];
    int8_t bytes[ECGFED_BYTES];
} ecgfed_net_work;

/* Whether a window (as below) is unlike any training beat; 0 if the model has no prototypes; 1 if a value is not finite. */
int32_t ecgfed_net_out_of_distribution(ecgfed_net_work *work, const float *window_mv);

/* Compute the logits (classes) of a window of 256 samples in millivolt, filtered but not normalised, and its RR features;
 * NAN if one of them is not finite. */
void ecgfed_net_logits(ecgfed_net_work *work, const float *window_mv, const float *rr_s, float *logits);

#ifdef __cplusplus
}
#endif

#endif
