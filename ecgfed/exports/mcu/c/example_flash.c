/* Reads a recording from flash (golden.h, at 360 Hz) and prints one beat per line: milliseconds, class, probability in
 * percent, uncertain; then the counts. It needs no files, no heap and no printf: the board has one function that prints.
 */
#include <stdint.h>

#include "ecgfed.h"
#include "golden.h"

/* Prints a text, on a serial line for example: a function that you write for your board. */
void print(const char *text);

static ecgfed_state state;

static void print_number(uint32_t value)
{
    char digits[11];
    int32_t at = 10;
    digits[at] = '\0';
    do {
        at--;
        digits[at] = (char)('0' + (char)(value % 10U));
        value /= 10U;
    } while (value > 0U);
    print(&digits[at]);
}

static void on_beat(void *user, const ecgfed_beat *beat)
{
    (void)user;
    print_number((uint32_t)(beat->sample * 1000 / ECGFED_FS_HZ));
    print(",");
    print(ecgfed_class_names[beat->label]);
    print(",");
    print_number((uint32_t)(100.0f * beat->probability + 0.5f));
    print(beat->uncertain ? ",uncertain\n" : ",\n");
}

int main(void)
{
    ecgfed_init(&state, on_beat, NULL);
    for (int32_t i = 0; i < ECGFED_GOLDEN_SAMPLES; i++) {
        ecgfed_push_uv(&state, ecgfed_golden_uv[i], 0);
    }
    ecgfed_finish(&state);
    print_number((uint32_t)state.counters.beats);
    print(" beats, ");
    print_number((uint32_t)(state.counters.no_logits + state.counters.no_signal));
    print(" unclassified, ");
    print_number((uint32_t)state.counters.uncertain);
    print(" uncertain\n");
    return 0;
}
