#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

void print(const char *text);
void print_number(const char *name, uint32_t value);
void start_clock(void);
uint32_t ticks(void);
void paint_stack(void);
uint32_t stack_used(void);

#endif
