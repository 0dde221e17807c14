/* Work of single calls: basic blocks that the compiler's coverage counts (-fsanitize-coverage=trace-pc), and beats.
 * Float32 millivolts from stdin; prints "push blocks beats" of the calls of ecgfed_push_uv with the most of each, and
 * "finish blocks beats".
 */
#include <math.h>
#include <stdio.h>

#include "ecgfed.h"

static ecgfed_state state;
static ecgfed_early early;
static unsigned long long blocks;
static unsigned long beats;

void __sanitizer_cov_trace_pc(void);

__attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc(void)
{
    blocks++;
}

static void on_beat(void *user, const ecgfed_beat *beat)
{
    (void)user;
    (void)beat;
    beats++;
}

static void on_announced(void *user, const ecgfed_peak *peak)
{
    (void)user;
    (void)peak;
}

int main(void)
{
    unsigned long long most_blocks = 0;
    unsigned long most_beats = 0;
    float mv;
    ecgfed_init(&state, on_beat, NULL);
    ecgfed_announce(&state, &early, on_announced, NULL);
    while (fread(&mv, sizeof mv, 1, stdin) == 1) {
        const int missing = mv - mv != 0.0f;
        const int32_t uv = missing ? 0 : (int32_t)lrintf(mv * 1000.0f);
        blocks = 0;
        beats = 0;
        ecgfed_push_uv(&state, uv, missing);
        most_blocks = blocks > most_blocks ? blocks : most_blocks;
        most_beats = beats > most_beats ? beats : most_beats;
    }
    printf("push %llu %lu\n", most_blocks, most_beats);
    blocks = 0;
    beats = 0;
    ecgfed_finish(&state);
    printf("finish %llu %lu\n", blocks, beats);
    return 0;
}
