/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols of what comes and goes: see loaded.h
 */

#include "guest-linux/code-lists.h"
#include "guest-linux/loaded.h"
#include "guest-linux/modules.h"

GString *linux_loaded_symbols(struct linux_kernel *k)
{
    GString *text = g_string_new(NULL);

    if (!linux_modules_symbols(k, text) || !linux_code_lists_symbols(k, text)) {
        g_string_free(text, TRUE);
        return NULL;
    }
    return text;
}

uint64_t linux_loaded_hash(struct linux_kernel *k)
{
    uint64_t hash = 1;

    return linux_modules_hash(k, &hash) && linux_code_lists_hash(k, &hash) ?
           hash | 1 : 0;
}
