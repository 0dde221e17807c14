/* Prints the output of ecgfed_rate.c, one sample per line, then the device's samples of the numbers in the arguments;
 * replaces the rest of the sources.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ecgfed_rate.h"

void ecgfed_push(ecgfed_state *state, const float *mv, size_t count)
{
    (void)state;
    for (size_t i = 0; i < count; i++) {
        printf("%.9g\n", (double)mv[i]);
    }
}

void ecgfed_finish(ecgfed_state *state)
{
    (void)state;
}

int main(int arguments, char **args)
{
    static ecgfed_rate rate;
    float mv[13];
    size_t count;
    ecgfed_rate_init(&rate, NULL);
    while ((count = fread(mv, sizeof *mv, 13, stdin)) > 0) {
        ecgfed_rate_push(&rate, mv, count);
    }
    ecgfed_rate_finish(&rate);
    for (int i = 1; i < arguments; i++) {
        printf("%lld\n", (long long)ecgfed_rate_sample(atoll(args[i])));
    }
    return 0;
}
