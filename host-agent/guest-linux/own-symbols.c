/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols of the kernel itself: see own-symbols.h
 */

#include <glib.h>

#include "guest-linux/own-symbols.h"
#include "guest-linux/symbol-lines.h"

#define PART        (32u << 10)             /* bytes that are given at once */
#define MOST        (KALLSYMS_NAME_MAX + 64)    /* of a line */

/*
 * Code of its initialisation keeps its names when it has been freed: the kernel
 * makes these addresses not executable (free_init_pages()), and uses the memory
 * at others.
 */
void linux_own_symbols(const struct linux_kernel *k, linux_text_fn *fn,
                       void *opaque)
{
    g_autoptr(GString) text = g_string_sized_new(PART + MOST);
    uint32_t n = kallsyms_count(k->symbols);
    bool plain = kallsyms_is_plain(k->symbols);
    size_t room = LINUX_SYMBOLS_MAX;
    uint64_t last = 0;
    bool code = false;

    for (uint32_t i = 0; i < n; i++) {
        const char *name;
        uint64_t address;
        char type;

        kallsyms_get(k->symbols, i, &address, &type, &name);
        if (room >= text->len + 2 * MOST && (plain || linux_is_name(name))) {
            linux_symbol_line(text, address, type, name, NULL);
        }
        if (address >= last) {
            code = linux_is_code(type) || (code && address == last);
            last = address;
        }
        if (text->len >= PART) {
            fn(opaque, text->str, text->len);
            room -= text->len;
            g_string_truncate(text, 0);
        }
    }
    /* Only a kernel without names of data ends with one of code. */
    if (code) {
        linux_end_line(text, (last | (GUEST_PAGE_SIZE - 1)) + 1, NULL);
    }
    fn(opaque, text->str, text->len);
}

bool linux_image(const struct linux_kernel *k, uint64_t *start, uint64_t *end)
{
    return (kallsyms_find(k->symbols, "_text", start) ||
            kallsyms_find(k->symbols, "_stext", start)) &&
           (kallsyms_find(k->symbols, "_end", end) ||
            kallsyms_find(k->symbols, "_etext", end)) && *start < *end;
}
