/* Feed float32 millivolts from a file to the C sources in chunks of a given length; prints one line per beat:
 * sample label probability uncertain far padded unclassified, and with a third argument all probabilities, RR features
 * and window. The fourth argument is a number of missing samples to push first, the fifth the converter's limit in mV.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ecgfed_rate.h"

static ecgfed_state state;
static ecgfed_rate rate;
static int full;

static void on_beat(void *user, const ecgfed_beat *beat)
{
    (void)user;
    printf("%lld %d %.9g %d %d %d %d", (long long)beat->sample, (int)beat->label, (double)beat->probability,
           (int)beat->uncertain, (int)beat->far, (int)beat->padded, (int)beat->unclassified);
    for (int i = 0; full && i < ecgfed_net.classes; i++) {
        printf(" %.9g", (double)beat->probabilities[i]);
    }
    for (int i = 0; full && i < ECGFED_RR; i++) {
        printf(" %.9g", (double)beat->rr_s[i]);
    }
    for (int i = 0; full && i < ECGFED_WINDOW; i++) {
        printf(" %.9g", (double)beat->window_mv[i]);
    }
    printf("\n");
}

int main(int count, char **args)
{
    static float mv[4096];
    const size_t chunk = count > 2 ? (size_t)atol(args[2]) : 360;
    FILE *file = count > 1 ? fopen(args[1], "rb") : NULL;
    size_t count_read;
    if (!file || chunk < 1 || chunk > sizeof mv / sizeof *mv) {
        return 2;
    }
    full = count > 3 && atoi(args[3]);
    ecgfed_init(&state, on_beat, NULL);
    ecgfed_rate_init(&rate, &state);
    if (count > 5 && atof(args[5]) > 0.0) {
        ecgfed_set_rails(&state, -(float)atof(args[5]), (float)atof(args[5]));
    }
    for (long long i = 0; count > 4 && i < atoll(args[4]); i++) {
        ecgfed_push_uv(&state, 0, 1);
    }
    while ((count_read = fread(mv, sizeof *mv, chunk, file)) > 0) {
        ecgfed_rate_push(&rate, mv, count_read);
    }
    ecgfed_rate_finish(&rate);
    printf("classes");
    for (int i = 0; i < ecgfed_net.classes; i++) {
        printf(" %s", ecgfed_class_names[i]);
    }
    printf("\nstate %lu\n", (unsigned long)sizeof state);
    return fclose(file) ? 1 : 0;
}
