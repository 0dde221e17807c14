/* Millivolts in, one a line at 360 a second; beats out, one a line: seconds, class, probability, uncertain.
 *
 * A line that is no number is a sample that was not recorded. On a device, call ecgfed_push from where samples arrive.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ecgfed.h"

static ecgfed_state state;

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
    while (fgets(line, sizeof line, stdin)) {
        char *end;
        const double value = strtod(line, &end);
        const float mv = end == line ? NAN : (float)value;
        ecgfed_push(&state, &mv, 1);
    }
    ecgfed_finish(&state);
    return 0;
}
