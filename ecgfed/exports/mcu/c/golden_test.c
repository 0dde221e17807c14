/* The self-test as a program: exit 0 if every beat equals Python's. */
#include <stdio.h>

#include "ecgfed_golden.h"

static ecgfed_state state;

int main(void)
{
    const int32_t wrong = ecgfed_golden(&state);
    printf("golden: %ld beats differ\n", (long)wrong);
    return wrong ? 1 : 0;
}
