/* ecgfed: the numbers of another model, read where they lie in flash, in place of the compiled ones.
 *
 *     static ecgfed_image image;
 *     if (ecgfed_image_read(&image, slot, size) == 0 && ecgfed_image_test(&image, &state) == 0) {
 *         ecgfed_image_use(&image);
 *     }
 *
 * Images come by ecgfed_update.h; docs/updates.md describes them byte by byte.
 */
#ifndef ECGFED_IMAGE_H
#define ECGFED_IMAGE_H

#include "ecgfed_golden.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A model whose arrays lie in an image; private but for `patient` and `bundle`. */
typedef struct {
    ecgfed_model model;
    ecgfed_layer rr, hidden, personal;
    ecgfed_golden_beats golden;
    const uint8_t *patient; /* 32 bytes: tag of the patient's id, zeros of the global model */
    const uint8_t *bundle;  /* 32 bytes: digest of the bundle that the model is from */
} ecgfed_image;

/* Read an image of `size` bytes, which begins at a multiple of four and stays where it is while it is used.
 * Returns 0, or 1 if it is no image, not whole, or of another layout than the compiled model; it is then unusable. */
int32_t ecgfed_image_read(ecgfed_image *image, const uint8_t *bytes, uint32_t size);
/* Process the golden recording with the image's model, whichever is in use; return the number of beats that differ from
 * the answers in the image. The state is initialised first; call ecgfed_init again afterwards. */
int32_t ecgfed_image_test(const ecgfed_image *image, ecgfed_state *state);
/* Use the image's model for all states from now on, or the compiled one (NULL). Call it from the task that pushes. */
void ecgfed_image_use(const ecgfed_image *image);

#ifdef __cplusplus
}
#endif

#endif
