/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tables of system calls: see syscalls.h
 */

#include <inttypes.h>
#include <string.h>

#include "guest-linux/syscalls.h"

/* More than Linux has: it is at 470, and adds a few a year. */
#define NUMBERS_MAX     1024

/* By the number of the call.  Kernels since 6.9 only have the first one. */
static const struct {
    const char *name;
    unsigned bits;
} tables[] = {
    { "sys_call_table", 64 },
    { "ia32_sys_call_table", 32 },
};

/* Where the symbol after @address begins */
static uint64_t next_symbol(const struct kallsyms *k, uint64_t address)
{
    uint64_t next = UINT64_MAX, at;
    const char *name;
    char type;

    for (uint32_t i = 0; i < kallsyms_count(k); i++) {
        kallsyms_get(k, i, &at, &type, &name);
        if (at > address) {
            next = MIN(next, at);
        }
    }
    return next;
}

GString *linux_syscalls(struct linux_kernel *k)
{
    GString *text = g_string_new(NULL);
    unsigned word = page_walk_word(&k->walk);
    uint64_t start, stext, etext;

    if (!kallsyms_find(k->symbols, "_stext", &stext) ||
        !kallsyms_find(k->symbols, "_etext", &etext)) {
        return text;
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(tables); i++) {
        uint8_t functions[NUMBERS_MAX * 8];
        uint64_t n;

        if (!kallsyms_find(k->symbols, tables[i].name, &start) ||
            (word == 8 && !linux_pointer(start))) {
            continue;
        }
        n = (next_symbol(k->symbols, start) - start) / word;
        n = page_walk_read_some(&k->walk, start, functions,
                                MIN(n, NUMBERS_MAX) * word) / word;
        for (unsigned number = 0; number < n; number++) {
            uint64_t function = 0;

            memcpy(&function, functions + number * word, word);
            function = GUINT64_FROM_LE(function);
            if (function < stext || function >= etext) {
                /* Its end, before what the linker has put there */
                break;
            }
            g_string_append_printf(text, "%u %u %" PRIx64 "\n",
                                   MIN(tables[i].bits, 8 * word), number,
                                   function);
        }
    }
    return text;
}
