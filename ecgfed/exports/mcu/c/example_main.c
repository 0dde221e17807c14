/* Millivolts in, one a line at ECGFED_DEVICE_HZ a second; beats out, one a line: seconds, class, probability, uncertain.
 *
 * A line that is no number is a sample that was not recorded. On a device, call ecgfed_rate_push from where samples arrive.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ecgfed_rate.h"

static ecgfed_state state;
static ecgfed_rate rate; /* where the device samples at 360, ecgfed_push does without it */

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
