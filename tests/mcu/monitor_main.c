/* Reads float32 millivolts from stdin and runs the C sources with their monitor; the arguments are the converter's limit
 * in mV (0 for none) and how many samples are pushed at once. Prints lines that begin with a letter:
 * b: sample label uncertain far unclassified window, of a beat as it is classified;
 * w: sample label uncertain far unclassified reasons paced, samples since its R peak, changes, their values;
 * q: samples pushed and changes, where a push changes them; c: the counter block in hexadecimal.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ecgfed_monitor.h"

static ecgfed_state state;
static ecgfed_monitor monitor;

static void on_beat(void *user, const ecgfed_beat *beat)
{
    (void)user;
    printf("b %lld %d %d %d %d", (long long)beat->sample, (int)beat->label, (int)beat->uncertain, (int)beat->far,
           (int)beat->unclassified);
    for (int i = 0; i < ECGFED_WINDOW; i++) {
        printf(" %.9g", (double)beat->window_mv[i]);
    }
    printf("\n");
}

static void on_watched(void *user, const ecgfed_watched_beat *beat)
{
    double values[ECGFED_DRIFT_REASONS - 1];
    (void)user;
    ecgfed_drift_values(&monitor.drift, values);
    printf("w %lld %d %d %d %d %u %.9g %lld %u", (long long)beat->sample, (int)beat->label, (int)beat->uncertain,
           (int)beat->far, (int)beat->unclassified, (unsigned)beat->reasons, (double)beat->paced,
           (long long)state.counters.samples - (long long)beat->sample, (unsigned)monitor.drift.active);
    for (int i = 0; i < ECGFED_DRIFT_REASONS - 1; i++) {
        printf(" %.17g", values[i]);
    }
    printf("\n");
}

int main(int count, char **args)
{
    static float mv[4096];
    static uint8_t bytes[ECGFED_MONITOR_BYTES];
    const float rail = count > 1 ? (float)atof(args[1]) : 0.0f;
    const size_t chunk = count > 2 ? (size_t)atol(args[2]) : 360;
    uint32_t active = 0;
    size_t count_read;
    ecgfed_init(&state, on_beat, NULL);
    if (rail > 0.0f) {
        ecgfed_set_rails(&state, -rail, rail);
    }
    ecgfed_monitor_attach(&monitor, &state, on_watched, NULL);
    while ((count_read = fread(mv, sizeof *mv, chunk, stdin)) > 0) {
        ecgfed_push(&state, mv, count_read);
        if (monitor.drift.active != active) {
            active = monitor.drift.active;
            printf("q %llu %u\n", (unsigned long long)state.counters.samples, (unsigned)active);
        }
    }
    ecgfed_finish(&state);
    ecgfed_monitor_finish(&monitor);
    ecgfed_monitor_write(&monitor, bytes);
    printf("c ");
    for (int i = 0; i < ECGFED_MONITOR_BYTES; i++) {
        printf("%02x", (unsigned)bytes[i]);
    }
    printf("\nm %lu\n", (unsigned long)sizeof monitor);
    return 0;
}
