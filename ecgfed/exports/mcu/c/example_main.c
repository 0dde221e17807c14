/* Reads millivolts at ECGFED_DEVICE_HZ, one per line; prints one beat per line: seconds, class, probability, uncertain.
 *
 * A line that is not a number is a missing sample. On a device, call ecgfed_rate_push where samples arrive.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ecgfed_rate.h"

static ecgfed_state state;
static ecgfed_rate rate; /* not needed at 360 Hz: call ecgfed_push directly */

static void on_beat(void *user, const ecgfed_beat *beat)
{
    (void)user;
    printf("%.3f,%s,%.3f,%d\n", (double)beat->sample / ECGFED_FS_HZ, ecgfed_class_names[beat->label],
           (double)beat->probability, (int)beat->uncertain);
}

int main(void)
{
    char line[64];
    printf("seconds,class,probability,uncertain\n");
    ecgfed_init(&state, on_beat, NULL);
    ecgfed_rate_init(&rate, &state);
    while (fgets(line, sizeof line, stdin)) {
        char *end;
        const double value = strtod(line, &end);
        const float mv = end == line ? NAN : (float)value;
        ecgfed_rate_push(&rate, &mv, 1);
    }
    ecgfed_rate_finish(&rate);
    return 0;
}
