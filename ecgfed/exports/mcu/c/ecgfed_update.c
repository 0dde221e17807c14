/* ecgfed: signed deltas. Everything is verified before the first write, the new image again after the last, and the
 * switch is one record written beside the one in use: whenever the power is cut, the newest whole record is true. */
#include "ecgfed_update.h"

#if defined(ECGFED_MONOCYPHER) || defined(ECGFED_LIBSODIUM)

#include <string.h>

#include "ecgfed_update_crypto.h"

#define BLOCK ((uint32_t)ECGFED_UPDATE_BLOCK)
#define HEADER ((uint32_t)ECGFED_UPDATE_HEADER)
#define SIGNED 328u     /* bytes of the header before its signature */
#define INSTRUCTION 12u /* first byte to copy, bytes to copy, new bytes that follow */
#define DIGEST 64u
#define RECORD 232u     /* bytes of a record, with its digest at the end */

/* A delta's header. */
typedef struct {
    uint64_t counter;
    uint32_t base, result, payload, instructions;
    uint8_t bytes[HEADER];
} header;

/* Offsets of digests and tags in the header. */
enum { AT_DEVICE = 40, AT_PATIENT = 72, AT_BASE = 104, AT_RESULT = 168, AT_PAYLOAD = 232, AT_KEY = 296 };

/* Which slot is in use, what lies in both, and the last counter. */
typedef struct {
    uint32_t active;
    uint64_t sequence, counter;
    uint32_t size[2];
    uint8_t digest[2][DIGEST];
} record;

/* Writes an image block by block. */
typedef struct {
    const ecgfed_update_port *port;
    int32_t area;
    uint32_t at; /* bytes so far */
    uint8_t block[BLOCK];
} writer;

static uint64_t get(const uint8_t *bytes, uint32_t count)
{
    uint64_t value = 0;
    while (count > 0u) {
        value = (value << 8) | bytes[--count];
    }
    return value;
}

static uint32_t get32(const uint8_t *bytes)
{
    return (uint32_t)get(bytes, 4);
}

static void put(uint8_t *bytes, uint64_t value, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)(value >> (8u * i));
    }
}

static uint32_t least(uint32_t one, uint32_t other)
{
    return one < other ? one : other;
}

/* The SHA-512 of the first `size` bytes of an area, or with area -1 of the delta's payload. */
static int32_t digest_of(const ecgfed_update_port *port, int32_t area, uint32_t size, uint8_t *digest)
{
    uint8_t block[BLOCK];
    sha512 hash;
    sha512_begin(&hash);
    for (uint32_t at = 0; at < size;) {
        const uint32_t count = least(BLOCK, size - at);
        if (area < 0 ? port->delta(port->user, HEADER + at, block, count)
                     : port->read(port->user, area, at, block, count)) {
            return ECGFED_UPDATE_FLASH;
        }
        sha512_add(&hash, block, count);
        at += count;
    }
    sha512_end(&hash, digest);
    return ECGFED_UPDATE_OK;
}

static const uint8_t record_magic[8] = {'E', 'C', 'G', 'F', 'E', 'D', 'S', 'L'};

static int32_t read_record(const ecgfed_update_port *port, int32_t area, record *found)
{
    uint8_t bytes[RECORD], digest[DIGEST];
    sha512 hash;
    if (port->read(port->user, area, 0, bytes, RECORD) || memcmp(bytes, record_magic, 8) != 0 ||
        get32(bytes + 8) != 1u) {
        return ECGFED_UPDATE_NONE;
    }
    sha512_begin(&hash);
    sha512_add(&hash, bytes, RECORD - DIGEST);
    sha512_end(&hash, digest);
    if (memcmp(bytes + RECORD - DIGEST, digest, DIGEST) != 0) {
        return ECGFED_UPDATE_NONE;
    }
    found->active = get32(bytes + 12);
    found->sequence = get(bytes + 16, 8);
    found->counter = get(bytes + 24, 8);
    for (uint32_t slot = 0; slot < 2u; slot++) {
        found->size[slot] = get32(bytes + 32 + 4u * slot);
        memcpy(found->digest[slot], bytes + 40 + DIGEST * slot, DIGEST);
    }
    return found->active < 2u && found->size[0] <= port->slot_size && found->size[1] <= port->slot_size
               ? ECGFED_UPDATE_OK
               : ECGFED_UPDATE_NONE;
}

/* The newest whole record, and the area that it is not in. */
static int32_t newest_record(const ecgfed_update_port *port, record *found, int32_t *other)
{
    record second;
    const int32_t first_result = read_record(port, ECGFED_RECORD_A, found);
    *other = ECGFED_RECORD_B;
    if (read_record(port, ECGFED_RECORD_B, &second) == ECGFED_UPDATE_OK &&
        (first_result != ECGFED_UPDATE_OK || second.sequence > found->sequence)) {
        *found = second;
        *other = ECGFED_RECORD_A;
        return ECGFED_UPDATE_OK;
    }
    return first_result;
}

static int32_t write_record(const ecgfed_update_port *port, int32_t area, const record *made)
{
    uint8_t bytes[BLOCK];
    record again;
    sha512 hash;
    memset(bytes, 0xff, sizeof bytes);
    memcpy(bytes, record_magic, 8);
    put(bytes + 8, 1, 4);
    put(bytes + 12, made->active, 4);
    put(bytes + 16, made->sequence, 8);
    put(bytes + 24, made->counter, 8);
    for (uint32_t slot = 0; slot < 2u; slot++) {
        put(bytes + 32 + 4u * slot, made->size[slot], 4);
        memcpy(bytes + 40 + DIGEST * slot, made->digest[slot], DIGEST);
    }
    sha512_begin(&hash);
    sha512_add(&hash, bytes, RECORD - DIGEST);
    sha512_end(&hash, bytes + RECORD - DIGEST);
    if (port->erase(port->user, area) || port->write(port->user, area, 0, bytes) ||
        read_record(port, area, &again) != ECGFED_UPDATE_OK || again.sequence != made->sequence) {
        return ECGFED_UPDATE_FLASH;
    }
    return ECGFED_UPDATE_OK;
}

static int32_t is_whole(const ecgfed_update_port *port, const record *found, uint32_t slot)
{
    uint8_t digest[DIGEST];
    return found->size[slot] > 0u && digest_of(port, (int32_t)slot, found->size[slot], digest) == ECGFED_UPDATE_OK &&
           memcmp(digest, found->digest[slot], DIGEST) == 0;
}

/* The record with the slot that is in use: the active one, or where that is damaged the other. */
static int32_t in_use(const ecgfed_update_port *port, record *found, int32_t *other)
{
    if (newest_record(port, found, other) != ECGFED_UPDATE_OK) {
        return ECGFED_UPDATE_NONE;
    }
    if (is_whole(port, found, found->active)) {
        return ECGFED_UPDATE_OK;
    }
    found->active = 1u - found->active;
    return is_whole(port, found, found->active) ? ECGFED_UPDATE_FELL_BACK : ECGFED_UPDATE_NONE;
}

static void fill(ecgfed_update_state *state, const record *found)
{
    state->slot = (int32_t)found->active;
    state->size = found->size[found->active];
    state->counter = found->counter;
}

int32_t ecgfed_update_start(const ecgfed_update_port *port, ecgfed_update_state *state)
{
    record found;
    int32_t other;
    const int32_t result = in_use(port, &found, &other);
    if (result != ECGFED_UPDATE_NONE) {
        fill(state, &found);
    }
    return result;
}

int32_t ecgfed_update_provision(const ecgfed_update_port *port, uint32_t size, uint64_t counter)
{
    record made;
    memset(&made, 0, sizeof made);
    made.sequence = 1;
    made.counter = counter;
    made.size[0] = size;
    if (size == 0u || size > port->slot_size) {
        return ECGFED_UPDATE_SLOT;
    }
    if (digest_of(port, ECGFED_SLOT_A, size, made.digest[0]) != ECGFED_UPDATE_OK ||
        port->test(port->user, ECGFED_SLOT_A, size)) {
        return ECGFED_UPDATE_TEST;
    }
    return port->erase(port->user, ECGFED_RECORD_B) ? ECGFED_UPDATE_FLASH : write_record(port, ECGFED_RECORD_A, &made);
}

static const uint8_t delta_magic[8] = {'E', 'C', 'G', 'F', 'E', 'D', 'U', 'P'};

/* Read and verify the header; nothing else in it is used before the signature holds. */
static int32_t read_header(const ecgfed_update_port *port, uint32_t size, header *delta)
{
    const uint8_t *bytes = delta->bytes;
    int32_t trusted = 0;
    if (size < HEADER || port->delta(port->user, 0, delta->bytes, HEADER) || memcmp(bytes, delta_magic, 8) != 0 ||
        get(bytes + 8, 2) != 1u || get32(bytes + 12) != HEADER) {
        return ECGFED_UPDATE_FORMAT;
    }
    for (int32_t i = 0; i < port->key_count; i++) {
        trusted = trusted || memcmp(bytes + AT_KEY, port->keys[i], 32) == 0;
    }
    if (!trusted) {
        return ECGFED_UPDATE_SIGNER;
    }
    if (!signature_holds(bytes + SIGNED, bytes, SIGNED, bytes + AT_KEY)) {
        return ECGFED_UPDATE_SIGNATURE;
    }
    delta->counter = get(bytes + 16, 8);
    delta->base = get32(bytes + 24);
    delta->result = get32(bytes + 28);
    delta->payload = get32(bytes + 32);
    delta->instructions = get32(bytes + 36);
    return delta->payload == size - HEADER ? ECGFED_UPDATE_OK : ECGFED_UPDATE_FORMAT;
}

/* Whether a tag is for whoever has `own`: zeros are for everybody. */
static int32_t is_for(const uint8_t *tag, const uint8_t *own)
{
    uint8_t any = 0;
    for (uint32_t i = 0; i < 32u; i++) {
        any |= tag[i];
    }
    return any == 0u || memcmp(tag, own, 32) == 0;
}

/* Whether a delta with a good signature is for this device, now. */
static int32_t is_applicable(const ecgfed_update_port *port, const header *delta, const record *found)
{
    const uint8_t *bytes = delta->bytes;
    if (get(bytes + 10, 2) != (uint64_t)port->kind) {
        return ECGFED_UPDATE_KIND;
    }
    if (!is_for(bytes + AT_DEVICE, port->device)) {
        return ECGFED_UPDATE_DEVICE;
    }
    if (!is_for(bytes + AT_PATIENT, port->patient)) {
        return ECGFED_UPDATE_PATIENT;
    }
    if (delta->counter <= found->counter || delta->counter <= port->least_counter) {
        return ECGFED_UPDATE_COUNTER;
    }
    if (delta->base != found->size[found->active] || memcmp(bytes + AT_BASE, found->digest[found->active], DIGEST) != 0) {
        return ECGFED_UPDATE_BASE;
    }
    return delta->result == 0u || delta->result > port->slot_size ? ECGFED_UPDATE_SLOT : ECGFED_UPDATE_OK;
}

/* Append bytes from the slot in use, or with area -1 from the payload. */
static int32_t append(writer *out, int32_t area, uint32_t from, uint32_t count)
{
    const ecgfed_update_port *port = out->port;
    while (count > 0u) {
        const uint32_t filled = out->at % BLOCK, some = least(count, BLOCK - filled);
        uint8_t *bytes = out->block + filled;
        if (area < 0 ? port->delta(port->user, HEADER + from, bytes, some)
                     : port->read(port->user, area, from, bytes, some)) {
            return ECGFED_UPDATE_FLASH;
        }
        out->at += some;
        from += some;
        count -= some;
        if (out->at % BLOCK == 0u && port->write(port->user, out->area, out->at - BLOCK, out->block)) {
            return ECGFED_UPDATE_FLASH;
        }
    }
    return ECGFED_UPDATE_OK;
}

/* Go through the instructions; with `out` NULL only check that they make the result. */
static int32_t instructions(const ecgfed_update_port *port, const header *delta, int32_t base, writer *out)
{
    uint32_t at = 0, made = 0;
    for (uint32_t i = 0; i < delta->instructions; i++) {
        uint8_t bytes[INSTRUCTION];
        uint32_t from, copied, fresh;
        if (delta->payload - at < INSTRUCTION) {
            return ECGFED_UPDATE_FORMAT;
        }
        if (port->delta(port->user, HEADER + at, bytes, INSTRUCTION)) {
            return ECGFED_UPDATE_FLASH;
        }
        at += INSTRUCTION;
        from = get32(bytes);
        copied = get32(bytes + 4);
        fresh = get32(bytes + 8);
        if ((copied == 0u && fresh == 0u) || from > delta->base || copied > delta->base - from ||
            fresh > delta->payload - at || copied > delta->result - made || fresh > delta->result - made - copied) {
            return ECGFED_UPDATE_FORMAT;
        }
        if (out != NULL && (append(out, base, from, copied) || append(out, -1, at, fresh))) {
            return ECGFED_UPDATE_FLASH;
        }
        at += fresh;
        made += copied + fresh;
    }
    return at == delta->payload && made == delta->result ? ECGFED_UPDATE_OK : ECGFED_UPDATE_FORMAT;
}

/* Build the new image in the slot that is not in use, and read it again. */
static int32_t build(const ecgfed_update_port *port, const header *delta, const record *found)
{
    const int32_t target = (int32_t)(1u - found->active);
    uint8_t digest[DIGEST];
    writer out;
    out.port = port;
    out.area = target;
    out.at = 0;
    memset(out.block, 0xff, sizeof out.block);
    if (port->erase(port->user, target) || instructions(port, delta, (int32_t)found->active, &out)) {
        return ECGFED_UPDATE_FLASH;
    }
    if (out.at % BLOCK != 0u) { /* the last block, filled up */
        memset(out.block + out.at % BLOCK, 0xff, BLOCK - out.at % BLOCK);
        if (port->write(port->user, target, out.at - out.at % BLOCK, out.block)) {
            return ECGFED_UPDATE_FLASH;
        }
    }
    if (digest_of(port, target, delta->result, digest) != ECGFED_UPDATE_OK ||
        memcmp(digest, delta->bytes + AT_RESULT, DIGEST) != 0) {
        return ECGFED_UPDATE_FLASH;
    }
    return port->test(port->user, target, delta->result) ? ECGFED_UPDATE_TEST : ECGFED_UPDATE_OK;
}

int32_t ecgfed_update_apply(const ecgfed_update_port *port, uint32_t size, ecgfed_update_state *state)
{
    header delta;
    record found;
    uint8_t digest[DIGEST];
    int32_t other, result = read_header(port, size, &delta);
    if (result != ECGFED_UPDATE_OK) {
        return result;
    }
    if (in_use(port, &found, &other) == ECGFED_UPDATE_NONE) {
        return ECGFED_UPDATE_NONE;
    }
    result = is_applicable(port, &delta, &found);
    if (result != ECGFED_UPDATE_OK) {
        return result;
    }
    if (digest_of(port, -1, delta.payload, digest) != ECGFED_UPDATE_OK ||
        memcmp(digest, delta.bytes + AT_PAYLOAD, DIGEST) != 0) {
        return ECGFED_UPDATE_FORMAT;
    }
    result = instructions(port, &delta, 0, NULL);
    result = result != ECGFED_UPDATE_OK ? result : build(port, &delta, &found);
    if (result != ECGFED_UPDATE_OK) {
        return result;
    }
    found.active = 1u - found.active;
    found.size[found.active] = delta.result;
    memcpy(found.digest[found.active], delta.bytes + AT_RESULT, DIGEST);
    found.sequence++;
    found.counter = delta.counter;
    result = write_record(port, other, &found);
    if (result == ECGFED_UPDATE_OK) {
        fill(state, &found);
    }
    return result;
}

const char *ecgfed_update_text(int32_t result)
{
    static const char *const text[] = {
        "done", "no delta of this version, or a damaged one", "signed by a key that is not trusted",
        "a signature that does not hold", "for another kind of image", "for another device", "for another patient",
        "its counter is not above that of the last delta", "made from another image than the one in use",
        "its image is larger than a slot", "flash could not be read, erased or written",
        "the new image failed its self-test", "the image in use is damaged: the one before it is used",
        "no record, or no image that agrees with it"};
    return result >= 0 && result <= ECGFED_UPDATE_NONE ? text[result] : "unknown result";
}

#endif
