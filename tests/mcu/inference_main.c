/* A custom inference that fails in the way of the mode (first argument); float32 millivolts from stdin. Prints one line
 * per beat: sample label name probability uncertain sum-of-probabilities unclassified. In mode 7 the net of the sources
 * is called instead, with one value of the window or of the RR features replaced; prints the logits of each.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ecgfed.h"

static ecgfed_state state;
static int mode;

static void inference(void *user, const float *window_mv, const float *rr_s, float *logits)
{
    const int32_t classes = ecgfed_net.classes;
    (void)user;
    (void)window_mv;
    (void)rr_s;
    for (int32_t i = 0; i < (mode == 4 ? classes - 1 : mode == 5 ? 0 : classes); i++) {
        logits[i] = (float)i;
    }
    if (mode == 1) {
        logits[classes - 1] = NAN;
    } else if (mode == 2) {
        logits[0] = INFINITY;
    } else if (mode == 3) {
        logits[1] = -INFINITY;
    } else if (mode == 6) { /* finite, with almost the largest possible difference */
        logits[0] = -3e38f;
        logits[classes - 1] = 3e38f;
    }
}

static void on_beat(void *user, const ecgfed_beat *beat)
{
    float sum = 0.0f;
    (void)user;
    for (int32_t i = 0; i < ecgfed_net.classes; i++) {
        sum += beat->probabilities[i];
    }
    printf("%lld %d %s %.9g %d %.9g %d\n", (long long)beat->sample, (int)beat->label, ecgfed_class_names[beat->label],
           (double)beat->probability, (int)beat->uncertain, (double)sum, (int)beat->unclassified);
}

static void replaced(size_t at, float value)
{
    float values[ECGFED_WINDOW + ECGFED_RR], logits[ECGFED_MAX_CLASSES];
    for (int i = 0; i < ECGFED_WINDOW + ECGFED_RR; i++) {
        values[i] = i < ECGFED_WINDOW ? sinf((float)i / 9.0f) : 0.8f;
    }
    values[at] = value;
    ecgfed_net_logits(&state.work.net, values, values + ECGFED_WINDOW, logits);
    printf("%d", (int)ecgfed_net_out_of_distribution(&state.work.net, values));
    for (int32_t i = 0; i < ecgfed_net.classes; i++) {
        printf(" %.9g", (double)logits[i]);
    }
    printf("\n");
}

static int replace_all(void)
{
    const float values[] = {0.5f, NAN, INFINITY, -INFINITY, 3e38f};
    const size_t places[] = {0, 200, ECGFED_WINDOW + 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
            replaced(places[i], values[j]);
        }
    }
    return 0;
}

int main(int count, char **args)
{
    float mv[360];
    size_t read;
    mode = count > 1 ? atoi(args[1]) : 0;
    if (mode == 7) {
        return replace_all();
    }
    ecgfed_init(&state, on_beat, NULL);
    ecgfed_set_inference(&state, inference, NULL);
    while ((read = fread(mv, sizeof *mv, 360, stdin)) > 0) {
        ecgfed_push(&state, mv, read);
    }
    ecgfed_finish(&state);
    return 0;
}
