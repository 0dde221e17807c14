/* A device with its flash in files: FOLDER/{slot-a,slot-b,record-a,record-b}, erased bytes 0xff, written bits only 1 to 0.
 *
 *     update FOLDER KIND KEY DEVICE PATIENT CUT COMMAND [ARGUMENTS]
 *
 * KEY, DEVICE and PATIENT are 64 hexadecimal digits. COMMAND is `provision SIZE COUNTER`, `start`, `apply DELTA` or
 * `fuzz DELTA SEED CASES`. The power is cut after CUT steps (an erase or a write is two: half of it, then all of it);
 * -1 never. Prints the result's number, then slot, size and counter.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ecgfed_update.h"
#ifdef WITH_MODEL
#include "ecgfed_image.h"
#endif

#ifndef SLOT
#define SLOT (16u * 1024u)
#endif

typedef struct {
    uint8_t area[4][SLOT];
    const char *folder;
    uint8_t *delta;
    uint32_t delta_size;
    long cut;
    long steps, tests;
} device;

static device flash;
static const char *const names[4] = {"slot-a", "slot-b", "record-a", "record-b"};

static void load_or_store(int store)
{
    for (int i = 0; i < 4; i++) {
        char path[512];
        FILE *file;
        snprintf(path, sizeof path, "%s/%s", flash.folder, names[i]);
        file = fopen(path, store ? "wb" : "rb");
        if (store) {
            if (!file || fwrite(flash.area[i], 1, SLOT, file) != SLOT) {
                exit(9);
            }
        } else {
            memset(flash.area[i], 0xff, SLOT);
            if (file && fread(flash.area[i], 1, SLOT, file) == 0) {
                exit(9);
            }
        }
        if (file) {
            fclose(file);
        }
    }
}

/* Count a step; end the program, as a power cut does, when no more are left. */
static void step(void)
{
    flash.steps++;
    if (flash.cut >= 0 && flash.steps > flash.cut) {
        load_or_store(1);
        exit(7);
    }
}

static int32_t read_area(void *user, int32_t area, uint32_t offset, uint8_t *bytes, uint32_t count)
{
    (void)user;
    if (area < 0 || area > 3 || offset > SLOT || count > SLOT - offset) {
        abort();
    }
    memcpy(bytes, flash.area[area] + offset, count);
    return 0;
}

static void program(int32_t area, uint32_t offset, const uint8_t *bytes, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        flash.area[area][offset + i] &= bytes[i];
    }
}

static int32_t write_area(void *user, int32_t area, uint32_t offset, const uint8_t *bytes)
{
    (void)user;
    if (area < 0 || area > 3 || offset % ECGFED_UPDATE_BLOCK || offset > SLOT - ECGFED_UPDATE_BLOCK) {
        abort();
    }
    step();
    program(area, offset, bytes, 0, ECGFED_UPDATE_BLOCK / 2);
    step();
    program(area, offset, bytes, ECGFED_UPDATE_BLOCK / 2, ECGFED_UPDATE_BLOCK);
    return 0;
}

static int32_t erase_area(void *user, int32_t area)
{
    (void)user;
    if (area < 0 || area > 3) {
        abort();
    }
    step();
    memset(flash.area[area], 0xff, SLOT / 2);
    step();
    memset(flash.area[area] + SLOT / 2, 0xff, SLOT / 2);
    return 0;
}

static int32_t read_delta(void *user, uint32_t offset, uint8_t *bytes, uint32_t count)
{
    (void)user;
    if (offset > flash.delta_size || count > flash.delta_size - offset) {
        return 1; /* as a file that ends before */
    }
    memcpy(bytes, flash.delta + offset, count);
    return 0;
}

/* The self-test: of a model by its golden vectors, of other bytes that they do not begin with an exclamation mark. */
static int32_t test_slot(void *user, int32_t slot, uint32_t size)
{
    (void)user;
    flash.tests++;
#ifdef WITH_MODEL
    {
        static ecgfed_image image;
        static ecgfed_state state;
        static uint32_t aligned[SLOT / 4];
        memcpy(aligned, flash.area[slot], size);
        return ecgfed_image_read(&image, (const uint8_t *)aligned, size) || ecgfed_image_test(&image, &state);
    }
#else
    return size == 0 || flash.area[slot][0] == '!';
#endif
}

static void hex(const char *text, uint8_t *bytes)
{
    for (int i = 0; i < 32; i++) {
        unsigned value;
        if (sscanf(text + 2 * i, "%2x", &value) != 1) {
            exit(9);
        }
        bytes[i] = (uint8_t)value;
    }
}

static void read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        exit(9);
    }
    fseek(file, 0, SEEK_END);
    flash.delta_size = (uint32_t)ftell(file);
    flash.delta = malloc(flash.delta_size ? flash.delta_size : 1);
    rewind(file);
    if (fread(flash.delta, 1, flash.delta_size, file) != flash.delta_size) {
        exit(9);
    }
    fclose(file);
}

/* Flip a bit, cut, lengthen or overwrite the delta in `cases` ways; a changed delta must write nothing. */
static int fuzz(const ecgfed_update_port *port, uint32_t seed, int cases)
{
    const uint32_t size = flash.delta_size;
    uint8_t *whole = flash.delta;
    uint64_t random = seed * 2654435761u + 1u;
    for (int i = 0; i < cases; i++) {
        ecgfed_update_state state;
        uint32_t at, kind;
        random = random * 6364136223846793005u + 1442695040888963407u;
        kind = (uint32_t)(random >> 62);
        at = (uint32_t)((random >> 20) % (i % 3 ? (size < 500u ? size : 500u) : size));
        flash.delta = malloc(size + 16u);
        memcpy(flash.delta, whole, size);
        memset(flash.delta + size, 0, 16);
        flash.delta_size = kind == 0u ? at : kind == 1u ? size + 1u + at % 16u : size;
        if (kind == 2u) {
            flash.delta[at] ^= (uint8_t)(1u << (random % 8u));
        } else if (kind == 3u) {
            const uint32_t value = (uint32_t)(random >> 9);
            const uint8_t old = flash.delta[at];
            memcpy(flash.delta + (at > size - 4u ? size - 4u : at), &value, 4);
            flash.delta[at] = (uint8_t)(old + 1u);
        }
        if (ecgfed_update_apply(port, flash.delta_size, &state) == ECGFED_UPDATE_OK || flash.steps || flash.tests) {
            printf("case %d: kind %u at %u\n", i, (unsigned)kind, (unsigned)at);
            return 1;
        }
        free(flash.delta);
    }
    flash.delta = whole;
    flash.delta_size = size;
    return 0;
}

int main(int count, char **argument)
{
    static uint8_t key[1][32], own_device[32], own_patient[32];
    ecgfed_update_port port = {read_area, write_area, erase_area, test_slot, read_delta, NULL, SLOT, 0, NULL, 1,
                               own_device, own_patient, 0};
    ecgfed_update_state state = {0, 0, 0};
    int result = 9;
    if (count < 8) {
        return 9;
    }
    flash.folder = argument[1];
    flash.cut = atol(argument[6]);
    port.kind = atoi(argument[2]);
    port.keys = (const uint8_t (*)[32])key;
    hex(argument[3], key[0]);
    hex(argument[4], own_device);
    hex(argument[5], own_patient);
    load_or_store(0);
    if (!strcmp(argument[7], "provision")) {
        result = ecgfed_update_provision(&port, (uint32_t)atol(argument[8]), (uint64_t)atol(argument[9]));
    } else if (!strcmp(argument[7], "start")) {
        result = ecgfed_update_start(&port, &state);
    } else {
        read_file(argument[8]);
        if (!strcmp(argument[7], "fuzz")) {
            result = fuzz(&port, (uint32_t)atol(argument[9]), atoi(argument[10]));
        } else {
            result = ecgfed_update_apply(&port, flash.delta_size, &state);
        }
        free(flash.delta);
    }
    load_or_store(1);
    printf("%d %d %lu %lu %ld %ld\n%s\n", result, (int)state.slot, (unsigned long)state.size,
           (unsigned long)state.counter, flash.steps, flash.tests, ecgfed_update_text(result));
    return 0;
}
