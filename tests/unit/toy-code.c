/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code of toy kernels and programs: see toy-code.h
 */

#include <string.h>

#include "toy-code.h"

uint8_t *toy_page_at(struct toy_page *p, unsigned f, unsigned offset)
{
    return p->bytes + TOY_PITCH * f + offset;
}

void toy_page_jump(struct toy_page *p, unsigned f, unsigned offset,
                   uint8_t opcode, uint64_t to)
{
    uint8_t *at = toy_page_at(p, f, offset);
    uint32_t distance = to - (p->address + TOY_PITCH * f + offset) - 5;

    at[0] = opcode;
    memcpy(at + 1, &distance, sizeof(distance));
}

void toy_page_fill(struct toy_page *p)
{
    memset(p->bytes, 0x90, sizeof(p->bytes));
    for (unsigned f = 0; f < p->n; f++) {
        for (unsigned g = 0; g < p->n; g++) {
            toy_page_jump(p, f, TOY_CALL_SITE(0, g), 0xe8,
                          p->address + TOY_PITCH * g);
        }
        *toy_page_at(p, f, TOY_RETURN) = 0xc3;
    }
}

void toy_pages_write(struct btrail_writer *w, const struct toy_page *pages,
                     unsigned n, unsigned vcpus, const uint64_t *cr3,
                     unsigned n_cr3)
{
    struct btrail_code_builder *b = btrail_code_builder_new();
    struct btrail_sideband_info info = { BTRAIL_SIDEBAND_CODE };
    g_autofree uint8_t *data = NULL;
    unsigned order = 0;
    size_t size;

    for (unsigned k = 0; k < n; k++) {
        btrail_code_builder_content(b, k + 1, pages[k].bytes);
        for (unsigned i = 0; i < vcpus * n_cr3; i++) {
            const struct btrail_code_entry entry = {
                .vcpu = i % vcpus, .order = order++, .cr3 = cr3[i / vcpus],
                .linear = pages[k].address, .physical = k << 12,
                .number = k + 1,
            };

            btrail_code_builder_entry(b, &entry);
        }
    }
    data = btrail_code_builder_take(b, &size);
    info.size = size;
    g_assert_cmpint(btrail_writer_sideband(w, &info, data), ==, 0);
    btrail_code_builder_free(b);
}

void toy_page_names(const struct toy_page *p, GString *map)
{
    for (unsigned f = 0; f < p->n; f++) {
        g_string_append_printf(map, "%" G_GINT64_MODIFIER "x %c %s\n",
                               p->address + TOY_PITCH * f,
                               *p->names[f] == '[' ? 'd' : 'T', p->names[f]);
    }
}
