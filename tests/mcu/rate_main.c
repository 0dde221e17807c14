/* Prints the output of ecgfed_rate.c, one sample per line; replaces the rest of the sources. */
#include <stdio.h>

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

int main(void)
{
    static ecgfed_rate rate;
    float mv[13];
    size_t count;
    ecgfed_rate_init(&rate, NULL);
    while ((count = fread(mv, sizeof *mv, 13, stdin)) > 0) {
        ecgfed_rate_push(&rate, mv, count);
    }
    ecgfed_rate_finish(&rate);
    printf("%lld\n", (long long)ecgfed_rate_sample(36000000000LL));
    return 0;
}
