/* A Cortex-M4 without an operating system: vectors, floating-point unit, and output to the debugger (semihosting). */
#include "board.h"

extern char stack_top[], stack_limit[];
int main(void);
void reset(void);

static uint32_t host(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void print(const char *text)
{
    host(0x04, text);
}

void print_number(const char *name, uint32_t value)
{
    char digits[12];
    int at = 11;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    print(name);
    print(" ");
    print(digits + at);
    print("\n");
}

static void leave(uint32_t code)
{
    uint32_t block[2] = {0x20026, 0};
    block[1] = code;
    host(0x20, block);
    for (;;) {
    }
}

static void fault(void)
{
    print("fault\n");
    leave(3);
}

/* SysTick counts down from 2^24 - 1 at the board's 25 MHz; under -icount shift=0 one tick is 40 instructions. */
#define SYST ((volatile uint32_t *)0xE000E010)

void start_clock(void)
{
    SYST[0] = 0;
    SYST[1] = 0xFFFFFF;
    SYST[2] = 0;
    SYST[0] = 5;
    while (SYST[2] == 0) { /* the counter is loaded at the first tick */
    }
}

uint32_t ticks(void)
{
    return 0xFFFFFF - SYST[2];
}

/* Fill the unused stack with a pattern, to measure later how far it grew. */
void paint_stack(void)
{
    char *stack_pointer;
    __asm__ volatile("mov %0, sp" : "=r"(stack_pointer));
    for (char *at = stack_limit; at < stack_pointer - 256; at++) {
        *at = 0x5A;
    }
}

uint32_t stack_used(void)
{
    const char *at = stack_limit;
    while (at < stack_top && *at == 0x5A) {
        at++;
    }
    return (uint32_t)(stack_top - at);
}

void reset(void)
{
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20;
    __asm__ volatile("dsb\n isb");
    leave((uint32_t)main());
}

__attribute__((section(".vectors"), used)) static void (*const vectors[16])(void) = {
    (void (*)(void))stack_top, reset, fault, fault, fault, fault, fault, fault,
    fault, fault, fault, fault, fault, fault, fault, fault,
};
