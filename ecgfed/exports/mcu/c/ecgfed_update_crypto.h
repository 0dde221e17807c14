/* ecgfed: Ed25519 and SHA-512 of the library that ecgfed_update.c was compiled for. */
#ifndef ECGFED_UPDATE_CRYPTO_H
#define ECGFED_UPDATE_CRYPTO_H

#include <stdint.h>

#ifdef ECGFED_MONOCYPHER
#include "monocypher-ed25519.h"

typedef crypto_sha512_ctx sha512;

static void sha512_begin(sha512 *hash)
{
    crypto_sha512_init(hash);
}

static void sha512_add(sha512 *hash, const uint8_t *bytes, uint32_t count)
{
    crypto_sha512_update(hash, bytes, count);
}

static void sha512_end(sha512 *hash, uint8_t *digest)
{
    crypto_sha512_final(hash, digest);
}

/* Whether a signature of 64 bytes by a key of 32 bytes holds (RFC 8032). */
static int32_t signature_holds(const uint8_t *signature, const uint8_t *bytes, uint32_t count, const uint8_t *key)
{
    return crypto_ed25519_check(signature, key, bytes, count) == 0;
}
#else
#include <sodium.h>

typedef crypto_hash_sha512_state sha512;

static void sha512_begin(sha512 *hash)
{
    (void)crypto_hash_sha512_init(hash);
}

static void sha512_add(sha512 *hash, const uint8_t *bytes, uint32_t count)
{
    (void)crypto_hash_sha512_update(hash, bytes, count);
}

static void sha512_end(sha512 *hash, uint8_t *digest)
{
    (void)crypto_hash_sha512_final(hash, digest);
}

static int32_t signature_holds(const uint8_t *signature, const uint8_t *bytes, uint32_t count, const uint8_t *key)
{
    return crypto_sign_verify_detached(signature, bytes, count, key) == 0;
}
#endif

#endif
