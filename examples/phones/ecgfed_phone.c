#include "ecgfed_phone.h"

#include <stdlib.h>

#include "ecgfed_monitor.h"
#include "ecgfed_rate.h"

struct ecgfed_phone {
    ecgfed_state state;
    ecgfed_rate rate;
    ecgfed_monitor monitor;
    ecgfed_phone_beat *beats; /* given and not yet taken: from `taken` to `count` */
    size_t taken, count, capacity;
};

static void give(ecgfed_phone *phone, ecgfed_phone_beat beat)
{
    if (phone->taken == phone->count) {
        phone->taken = 0;
        phone->count = 0;
    }
    if (phone->count == phone->capacity) {
        const size_t capacity = phone->capacity ? 2 * phone->capacity : 64;
        ecgfed_phone_beat *larger = realloc(phone->beats, capacity * sizeof *larger);
        if (!larger) {
            return; /* the counters still have it */
        }
        phone->beats = larger;
        phone->capacity = capacity;
    }
    beat.sample = ecgfed_rate_sample(beat.sample);
    phone->beats[phone->count++] = beat;
}

static void on_beat(void *user, const ecgfed_beat *beat)
{
    const ecgfed_phone_beat given = {beat->sample, 0, beat->label, beat->probability, beat->uncertain,
                                     beat->far, beat->unclassified, 0, ECGFED_PACING_NOT_ASSESSED};
    give(user, given);
}

static void on_watched(void *user, const ecgfed_watched_beat *beat)
{
    const ecgfed_phone_beat given = {beat->sample, 1, beat->label, 0.0f, beat->uncertain,
                                     beat->far, beat->unclassified, (int32_t)beat->reasons, beat->paced};
    give(user, given);
}

ecgfed_phone *ecgfed_phone_create(float rail_mv)
{
    ecgfed_phone *phone = calloc(1, sizeof *phone);
    if (phone) {
        ecgfed_init(&phone->state, on_beat, phone);
        if (rail_mv > 0.0f) {
            ecgfed_set_rails(&phone->state, -rail_mv, rail_mv);
        }
        ecgfed_monitor_attach(&phone->monitor, &phone->state, on_watched, phone);
        ecgfed_rate_init(&phone->rate, &phone->state);
    }
    return phone;
}

void ecgfed_phone_destroy(ecgfed_phone *phone)
{
    if (phone) {
        free(phone->beats);
        free(phone);
    }
}

void ecgfed_phone_push(ecgfed_phone *phone, const float *mv, size_t count)
{
    ecgfed_rate_push(&phone->rate, mv, count);
}

void ecgfed_phone_finish(ecgfed_phone *phone)
{
    ecgfed_rate_finish(&phone->rate);
    ecgfed_monitor_finish(&phone->monitor);
}

int32_t ecgfed_phone_next(ecgfed_phone *phone, ecgfed_phone_beat *beat)
{
    if (phone->taken == phone->count) {
        return 0;
    }
    *beat = phone->beats[phone->taken++];
    return 1;
}

size_t ecgfed_phone_counters_bytes(void)
{
    return ECGFED_MONITOR_BYTES;
}

void ecgfed_phone_counters(const ecgfed_phone *phone, uint8_t *bytes)
{
    ecgfed_monitor_write(&phone->monitor, bytes);
}

const char *ecgfed_phone_class(int32_t label)
{
    return label < 0 || label > ECGFED_UNCLASSIFIED ? NULL : ecgfed_class_names[label];
}

int32_t ecgfed_phone_rate(void)
{
    return ECGFED_DEVICE_HZ;
}
