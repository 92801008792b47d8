/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that sorts and then ends, for what is too slow to boot an operating
 * system: about 300 million instructions, one in six of them a branch taken
 *
 * Loaded by -kernel (Multiboot), ended by -device isa-debug-exit.  Built by
 * tests/bench/overhead.
 */

#include <stdint.h>

#define COUNT   4096
#define ROUNDS  200

__attribute__((section(".multiboot"), used))
static const uint32_t multiboot[] = { 0x1badb002, 0, -0x1badb002 };

static uint32_t numbers[COUNT];
static uint8_t stack[16384] __attribute__((aligned(16), used));

static void sort(int from, int to)
{
    uint32_t pivot = numbers[(from + to) / 2];
    int i = from, j = to;

    while (i <= j) {
        while (numbers[i] < pivot) {
            i++;
        }
        while (numbers[j] > pivot) {
            j--;
        }
        if (i <= j) {
            uint32_t n = numbers[i];

            numbers[i++] = numbers[j];
            numbers[j--] = n;
        }
    }
    if (from < j) {
        sort(from, j);
    }
    if (i < to) {
        sort(i, to);
    }
}

__attribute__((used))
static void guest(void)
{
    uint32_t seed = 1;
    int failed = 0;

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++) {
            seed = seed * 1664525 + 1013904223;
            numbers[i] = seed >> 8;
        }
        sort(0, COUNT - 1);
        for (int i = 1; i < COUNT; i++) {
            failed |= numbers[i - 1] > numbers[i];
        }
    }
    /* QEMU's exit status is this, times two and one. */
    __asm__ volatile("outb %b0, $0xf4" : : "a"(failed ? 2 : 1));
    for (;;) {
        __asm__ volatile("hlt");
    }
}

__asm__(".globl _start\n"
        "_start: mov $stack + 16384, %esp\n"
        "        call guest\n");
