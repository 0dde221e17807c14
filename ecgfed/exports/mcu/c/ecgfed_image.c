/* ecgfed: an image's arrays, in the order of ecgfed_model; shapes are those of the compiled model. */
#include "ecgfed_image.h"

#include <string.h>

#define HEADER 128u
#define SHAPE_STEPS 64u

static const uint8_t magic[8] = {'E', 'C', 'G', 'F', 'E', 'D', 'I', 'M'};
static const uint8_t layout[32] = ECGFED_MODEL_LAYOUT;

/* What is left of the image. */
typedef struct {
    const uint8_t *at;
    uint32_t left;
} rest;

/* Return the next array of `count` elements, or NULL once the image is too short; arrays begin at multiples of four. */
static const void *take(rest *image, uint32_t count, uint32_t each)
{
    const uint8_t *array = image->at;
    const uint32_t padded = (count * each + 3u) & ~3u;
    if (array == NULL || padded > image->left) {
        image->at = NULL;
        return NULL;
    }
    image->at += padded;
    image->left -= padded;
    return array;
}

/* A number of four bytes at a place that need not be aligned. */
static void number(void *value, const uint8_t *bytes)
{
    memcpy(value, bytes, 4);
}

static ecgfed_layer read_layer(rest *image, const ecgfed_layer *compiled)
{
    ecgfed_layer layer = *compiled;
    const uint32_t out = (uint32_t)compiled->out;
    const uint8_t *scale = take(image, 1, 4), *zero = take(image, 1, 4);
    if (scale != NULL && zero != NULL) {
        number(&layer.input_scale, scale);
        number(&layer.input_zero, zero);
    }
    layer.weight = take(image, out * (uint32_t)compiled->kernel * (uint32_t)compiled->in, 1);
    layer.scale = take(image, out, 4);
    layer.offset = take(image, out, 4);
    if (compiled->bias != NULL) {
        layer.bias = take(image, out, 4);
    }
    return layer;
}

static void read_norm(rest *image, ecgfed_norm *norm, int32_t channels)
{
    if (norm->weight != NULL) {
        norm->weight = take(image, (uint32_t)channels, 4);
        norm->bias = take(image, (uint32_t)channels, 4);
    }
}

static const ecgfed_layer *read_optional(rest *image, const ecgfed_layer *compiled, ecgfed_layer *layer)
{
    if (compiled == NULL) {
        return NULL;
    }
    *layer = read_layer(image, compiled);
    return layer;
}

static void read_arrays(ecgfed_image *image, rest *bytes)
{
    ecgfed_model *model = &image->model;
    model->stem = read_layer(bytes, &model->stem);
    for (int32_t i = 0; i < 2; i++) {
        ecgfed_residual *block = model->block + i;
        block->conv0 = read_layer(bytes, &block->conv0);
        block->conv1 = read_layer(bytes, &block->conv1);
        block->skip = read_layer(bytes, &block->skip);
    }
    model->rr = read_optional(bytes, model->rr, &image->rr);
    model->hidden = read_optional(bytes, model->hidden, &image->hidden);
    model->out = read_layer(bytes, &model->out);
    model->personal = read_optional(bytes, model->personal, &image->personal);
    read_norm(bytes, &model->stem_norm, model->stem.out);
    for (int32_t i = 0; i < 2; i++) {
        read_norm(bytes, &model->block[i].norm0, model->block[i].conv0.out);
        read_norm(bytes, &model->block[i].norm1, model->block[i].conv1.out);
    }
    if (model->prototype != NULL) {
        model->prototype = take(bytes, (uint32_t)model->prototypes * SHAPE_STEPS, 2);
        model->prototype_scale = take(bytes, (uint32_t)model->prototypes, 4);
    }
    image->golden.sample = take(bytes, (uint32_t)image->golden.count, 4);
    image->golden.label = take(bytes, (uint32_t)image->golden.count, 2);
    image->golden.probability = take(bytes, (uint32_t)image->golden.count, 4);
}

int32_t ecgfed_image_read(ecgfed_image *image, const uint8_t *bytes, uint32_t size)
{
    const uint16_t version = 1, header = HEADER; /* as this machine stores them: little-endian, as the image is */
    uint32_t stored, beats;
    rest arrays;
    if (bytes == NULL || (uintptr_t)bytes % 4u != 0u || size < HEADER || size > 0x7fffffffu ||
        memcmp(bytes, magic, 8) != 0 || memcmp(bytes + 8, &version, 2) != 0 || memcmp(bytes + 10, &header, 2) != 0) {
        return 1;
    }
    number(&stored, bytes + 12);
    number(&beats, bytes + 124);
    if (stored != size || beats > size / 4u || memcmp(bytes + 16, layout, sizeof layout) != 0) {
        return 1;
    }
    image->model = ecgfed_net_built_in;
    image->patient = bytes + 48;
    image->bundle = bytes + 80;
    number(&image->model.temperature, bytes + 112);
    number(&image->model.threshold, bytes + 116);
    number(&image->model.ood_threshold, bytes + 120);
    image->golden.count = (int32_t)beats;
    arrays.at = bytes + HEADER;
    arrays.left = size - HEADER;
    read_arrays(image, &arrays);
    return arrays.at == NULL || arrays.left != 0u;
}

int32_t ecgfed_image_test(const ecgfed_image *image, ecgfed_state *state)
{
    const ecgfed_model *in_use = ecgfed_net_in_use;
    int32_t wrong;
    ecgfed_net_in_use = &image->model;
    wrong = ecgfed_golden_compare(state, &image->golden);
    ecgfed_net_in_use = in_use;
    return wrong;
}

void ecgfed_image_use(const ecgfed_image *image)
{
    ecgfed_net_in_use = image != NULL ? &image->model : &ecgfed_net_built_in;
}
