/* Feed float32 millivolts from stdin to the C sources in chunks of a given length, with announcements; prints one line a
 * report: what (1 announced, 2 added, 3 moved, 4 withdrawn, 0 final), id, R peak, samples pushed. */
#include <stdio.h>
#include <stdlib.h>

#include "ecgfed.h"

static ecgfed_state state;
static ecgfed_early early;

static void on_announced(void *user, const ecgfed_peak *peak)
{
    (void)user;
    printf("%d %lld %lld %lld\n", (int)peak->change, (long long)peak->beat, (long long)peak->sample, (long long)peak->now);
}

static void on_beat(void *user, const ecgfed_beat *beat)
{
    (void)user;
    printf("0 %lld %lld %lld\n", (long long)beat->beat, (long long)beat->sample, (long long)state.sample_count);
}

int main(int count, char **args)
{
    static float mv[4096];
    const size_t chunk = count > 1 ? (size_t)atol(args[1]) : 360;
    size_t count_read;
    if (chunk < 1 || chunk > sizeof mv / sizeof *mv) {
        return 2;
    }
    ecgfed_init(&state, on_beat, NULL);
    ecgfed_announce(&state, &early, on_announced, NULL);
    while ((count_read = fread(mv, sizeof *mv, chunk, stdin)) > 0) {
        ecgfed_push(&state, mv, count_read);
    }
    ecgfed_finish(&state);
    printf("memory %lu %lu\n", (unsigned long)sizeof state, (unsigned long)sizeof early);
    return 0;
}
