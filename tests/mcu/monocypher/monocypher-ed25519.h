/* The functions of Monocypher 4 that ecgfed_update.c calls, as its manual declares them; for compiling alone. */
#ifndef ECGFED_TEST_MONOCYPHER_H
#define ECGFED_TEST_MONOCYPHER_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t hash[8], input[16], input_size[2];
    size_t input_idx;
} crypto_sha512_ctx;

void crypto_sha512_init(crypto_sha512_ctx *ctx);
void crypto_sha512_update(crypto_sha512_ctx *ctx, const uint8_t *message, size_t message_size);
void crypto_sha512_final(crypto_sha512_ctx *ctx, uint8_t hash[64]);
int crypto_ed25519_check(const uint8_t signature[64], const uint8_t public_key[32], const uint8_t *message,
                         size_t message_size);

#endif
