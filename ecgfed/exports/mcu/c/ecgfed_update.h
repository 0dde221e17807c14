/* ecgfed: signed deltas: verify one, build the new image in the slot that is not in use, test it, and switch to it.
 *
 * The same file serves a phone (a bundle in one zip file) and a wearable (model.img); docs/updates.md describes it byte
 * by byte, and what an attacker can and cannot do. Nothing is allocated. The caller supplies four functions for its
 * flash, and a library for Ed25519 and SHA-512: compile ecgfed_update.c with -DECGFED_MONOCYPHER (Monocypher 4 and its
 * optional monocypher-ed25519.c) or -DECGFED_LIBSODIUM; without either it is empty.
 */
#ifndef ECGFED_UPDATE_H
#define ECGFED_UPDATE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ECGFED_UPDATE_HEADER 392 /* bytes of a delta before its payload */
#define ECGFED_UPDATE_BLOCK 256  /* bytes of a write, and what its offset is a multiple of */

/* Areas of flash, each erased as a whole: two images, and two records of which one is in use. */
enum { ECGFED_SLOT_A, ECGFED_SLOT_B, ECGFED_RECORD_A, ECGFED_RECORD_B };

/* Kinds of images. */
enum { ECGFED_KIND_BUNDLE = 1, ECGFED_KIND_MODEL = 2 };

/* Results. Up to ECGFED_UPDATE_SLOT nothing was written. */
enum {
    ECGFED_UPDATE_OK,
    ECGFED_UPDATE_FORMAT,    /* no delta, another version, or sizes that do not agree */
    ECGFED_UPDATE_SIGNER,    /* signed by a key that is not trusted */
    ECGFED_UPDATE_SIGNATURE, /* the signature does not hold */
    ECGFED_UPDATE_KIND,      /* for the other kind of image */
    ECGFED_UPDATE_DEVICE,    /* for another device */
    ECGFED_UPDATE_PATIENT,   /* for another patient */
    ECGFED_UPDATE_COUNTER,   /* its counter is not above that of the last applied delta: an old or repeated one */
    ECGFED_UPDATE_BASE,      /* made from another image than the one in use */
    ECGFED_UPDATE_SLOT,      /* the new image is larger than a slot */
    ECGFED_UPDATE_FLASH,     /* reading, erasing or writing failed, or the written image is not the signed one */
    ECGFED_UPDATE_TEST,      /* the new image failed its self-test; the old one stays in use */
    ECGFED_UPDATE_FELL_BACK, /* ecgfed_update_start: the image in use is damaged, the one before it is used */
    ECGFED_UPDATE_NONE       /* ecgfed_update_start: no record, or no image that agrees with it */
};

/* What the firmware supplies. Functions return 0, or anything else on failure. */
typedef struct {
    int32_t (*read)(void *user, int32_t area, uint32_t offset, uint8_t *bytes, uint32_t count);
    int32_t (*write)(void *user, int32_t area, uint32_t offset, const uint8_t *bytes); /* ECGFED_UPDATE_BLOCK of them */
    int32_t (*erase)(void *user, int32_t area);
    int32_t (*test)(void *user, int32_t slot, uint32_t size); /* self-test with golden vectors, before the switch */
    int32_t (*delta)(void *user, uint32_t offset, uint8_t *bytes, uint32_t count); /* reads the delta, anywhere in it */
    void *user;
    uint32_t slot_size;            /* bytes of a slot, a multiple of ECGFED_UPDATE_BLOCK */
    int32_t kind;                  /* ECGFED_KIND_BUNDLE or ECGFED_KIND_MODEL */
    const uint8_t (*keys)[32];     /* trusted Ed25519 public keys */
    int32_t key_count;
    const uint8_t *device;         /* 32 bytes each: first half of the SHA-512 of the device's and the patient's id */
    const uint8_t *patient;
    uint64_t least_counter;        /* 0, or the largest counter ever, where a part keeps it beyond this flash */
} ecgfed_update_port;

/* What is in use, as of the newest record. */
typedef struct {
    int32_t slot;
    uint32_t size;
    uint64_t counter;
} ecgfed_update_state;

/* At the factory, or where a device has no record: take the image that lies in slot A, of `size` bytes, into use. */
int32_t ecgfed_update_provision(const ecgfed_update_port *port, uint32_t size, uint64_t counter);
/* At each start: find the image in use and compare it with its digest. OK and FELL_BACK fill `state`. */
int32_t ecgfed_update_start(const ecgfed_update_port *port, ecgfed_update_state *state);
/* Verify and apply a delta of `size` bytes. OK fills `state`; on any other result the image in use stays. */
int32_t ecgfed_update_apply(const ecgfed_update_port *port, uint32_t size, ecgfed_update_state *state);
/* A result in words, for a log. */
const char *ecgfed_update_text(int32_t result);

#ifdef __cplusplus
}
#endif

#endif
