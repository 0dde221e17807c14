/* The golden self-test on the board: its stack use, and its duration in ticks of 40 instructions. */
#include "board.h"
#include "ecgfed_golden.h"

static ecgfed_state state;

static void no_beat(void *user, const ecgfed_beat *beat)
{
    (void)user;
    (void)beat;
}

/* Ten seconds of a steadily rising line: the cost of samples without candidates. A flat line would be a gap. */
static void ten_seconds(void)
{
    static int32_t level_uv = 100;
    for (int32_t i = 0; i < 10 * ECGFED_FS_HZ; i++) {
        ecgfed_push_uv(&state, level_uv++, 0);
    }
}

/* An inference without cost: the cost of a beat without the net. */
static void nothing(void *user, const float *window_mv, const float *rr_s, float *logits)
{
    (void)user;
    (void)window_mv;
    (void)rr_s;
    for (int32_t i = 0; i < ecgfed_net.classes; i++) {
        logits[i] = 0.0f;
    }
}

static int32_t measured(void)
{
    static float window[ECGFED_WINDOW], rr[ECGFED_RR], logits[ECGFED_MAX_CLASSES];
    int32_t wrong;
    start_clock();
    wrong = ecgfed_golden(&state);
    print_number("golden_ticks", ticks());
    start_clock();
    ecgfed_net_logits(&state.work.net, window, rr, logits);
    print_number("net_ticks", ticks());
    start_clock();
    ecgfed_net_out_of_distribution(&state.work.net, window);
    print_number("far_ticks", ticks());
#if ECGFED_RR_VERSION == 4
    for (int32_t i = 0; i < ECGFED_WINDOW; i++) {
        window[i] = (float)(i * 37 % 101) / 100.0f; /* in no order */
    }
    start_clock();
    ecgfed_context_beat(&state.context, window, 288, 1, state.work.net.second, rr);
    print_number("features_ticks", ticks());
#endif
    ecgfed_init(&state, no_beat, 0);
    ecgfed_set_inference(&state, nothing, 0);
    ten_seconds();
    start_clock();
    ten_seconds();
    print_number("ten_quiet_seconds_ticks", ticks());
    return wrong;
}

int main(void)
{
    int32_t wrong;
    paint_stack();
    wrong = ecgfed_golden(&state);
    print_number("stack", stack_used());
    print_number("state", (uint32_t)sizeof state);
    wrong += measured();
    print_number("wrong", (uint32_t)wrong);
    return wrong ? 1 : 0;
}
