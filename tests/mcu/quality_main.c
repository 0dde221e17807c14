/* Reads float32 millivolts (NAN if missing) from stdin; the arguments are the converter's limit in mV (0 for none) and,
 * optionally, `pacing` with R peaks after it. Prints a run of equal reasons per line: start, stop, reasons; or the
 * probability that each beat follows a pacing spike.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ecgfed_pacing.h"
#include "ecgfed_quality.h"

static ecgfed_quality quality;
static float mv[4000000];
static long long run_start, run_stop;
static int run_reasons;

static void print_run(void)
{
    if (run_reasons) {
        printf("%lld %lld %d\n", run_start, run_stop, run_reasons);
    }
}

static void on_quality(void *user, int64_t start, const uint8_t *reasons, int32_t count)
{
    (void)user;
    for (int32_t i = 0; i < count; i++) {
        if (reasons[i] != run_reasons) {
            print_run();
            run_start = start + i;
            run_reasons = reasons[i];
        }
        run_stop = start + i + 1;
    }
}

int main(int count, char **args)
{
    const size_t samples = fread(mv, sizeof *mv, sizeof mv / sizeof *mv, stdin);
    const double rail = count > 1 ? atof(args[1]) * 1000.0 : 0.0;
    const int32_t limit = rail > 0.0 ? (int32_t)rail : 1000000;
    if (count > 2 && strcmp(args[2], "pacing") == 0) {
        for (int i = 3; i < count; i++) {
            printf("%.9g\n", (double)ecgfed_pacing_score(mv + atol(args[i]) - ECGFED_PACING_BEFORE));
        }
        return 0;
    }
    ecgfed_quality_init(&quality, -limit, limit, on_quality, NULL);
    for (size_t i = 0; i < samples; i++) {
        const int32_t missing = !(mv[i] - mv[i] == 0.0f);
        ecgfed_quality_push(&quality, missing ? 0 : (int32_t)lrintf(mv[i] * 1000.0f), missing);
    }
    ecgfed_quality_finish(&quality);
    print_run();
    return 0;
}
