/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code that the kernel can have had elsewhere: see settled-code.h
 */

#include <glib.h>

#include "pt/settled-code.h"

struct settled_code {
    uint64_t image, end;
    uint64_t after;
    pt_code_fn *code;
    void *opaque;
};

struct settled_code *settled_code_new(uint64_t image, uint64_t end,
                                      pt_code_fn *code, void *opaque)
{
    struct settled_code *s = g_new0(struct settled_code, 1);

    *s = (struct settled_code){
        .image = image, .end = end, .code = code, .opaque = opaque,
    };
    return s;
}

void settled_code_free(struct settled_code *s)
{
    g_free(s);
}

void settled_code_set(struct settled_code *s, uint64_t after)
{
    s->after = after;
}

enum pt_code_result settled_code_read(void *opaque, uint64_t cr3,
                                      uint64_t address,
                                      const struct pt_moment *moment,
                                      struct pt_code *code)
{
    struct settled_code *s = opaque;
    enum pt_code_result result = s->code(s->opaque, cr3, address, moment,
                                         code);

    return result == PT_CODE_READ && moment->tsc < s->after &&
           (address >> 63) && (address < s->image || address >= s->end) ?
           PT_CODE_CHANGED : result;
}
