/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols of the kernel itself: see own-symbols.h
 */

#include <glib.h>

#include "guest-linux/own-symbols.h"
#include "guest-linux/symbol-lines.h"

/*
 * Code of its initialisation keeps its names when it has been freed: the kernel
 * takes the right to execute these addresses from them (free_init_pages()), and
 * uses the memory at others.
 */
GString *linux_own_symbols(const struct linux_kernel *k)
{
    GString *text = g_string_new(NULL);
    uint32_t n = kallsyms_count(k->symbols);
    uint64_t last = 0;
    bool code = false;

    for (uint32_t i = 0; i < n; i++) {
        const char *name;
        uint64_t address;
        char type;

        kallsyms_get(k->symbols, i, &address, &type, &name);
        if (linux_is_name(name)) {
            linux_symbol_line(text, address, type, name, NULL);
        }
        if (address > last) {
            code = false;
            last = address;
        }
        code |= address == last && linux_is_code(type);
    }
    /* Only a kernel without names of data ends with one of code. */
    if (code) {
        linux_end_line(text, (last | (GUEST_PAGE_SIZE - 1)) + 1, NULL);
    }
    return text;
}

bool linux_image(const struct linux_kernel *k, uint64_t *start, uint64_t *end)
{
    return (kallsyms_find(k->symbols, "_text", start) ||
            kallsyms_find(k->symbols, "_stext", start)) &&
           (kallsyms_find(k->symbols, "_end", end) ||
            kallsyms_find(k->symbols, "_etext", end)) && *start < *end;
}
