/* The golden self-test on the board, and how much stack and how many instructions it takes. */
#include "board.h"
#include "ecgfed_golden.h"

static ecgfed_state state;

/* A half minute's worth of nothing but a slow ramp: what samples cost where there is no beat. */
static void quiet(int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        ecgfed_push_uv(&state, i % 360, 0);
    }
}

static void no_beat(void *user, const ecgfed_beat *beat)
{
    (void)user;
    (void)beat;
}

int main(void)
{
    static float window[ECGFED_WINDOW], rr[ECGFED_RR], logits[ECGFED_MAX_CLASSES];
    uint32_t begin;
    int32_t wrong;
    paint_stack();
    wrong = ecgfed_golden(&state);
    say_number("wrong", (uint32_t)wrong);
    say_number("stack", stack_used());
    say_number("state", (uint32_t)sizeof state);
    start_clock();
    begin = ticks();
    ecgfed_golden(&state);
    say_number("golden ticks", ticks() - begin);
    start_clock();
    begin = ticks();
    ecgfed_net_logits(&state.work.net, window, rr, logits);
    say_number("net ticks", ticks() - begin);
    ecgfed_init(&state, no_beat, 0);
    quiet(3600);
    start_clock();
    begin = ticks();
    quiet(3600);
    say_number("quiet ticks", ticks() - begin);
    return wrong ? 1 : 0;
}
