/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code of toy kernels and programs, whose threads call and return
 *
 * Functions are 256 bytes apart.  In each of them there is a call of each
 * function of its page, a return, and room for what changes the mode.
 */

#ifndef BTRAIL_TOY_CODE_H
#define BTRAIL_TOY_CODE_H

#include <glib.h>

#include "backtrail/trace.h"
#include "lib/agent/code-piece.h"

#define TOY_KERNEL      UINT64_C(0xffffffff81000000)
#define TOY_USER        UINT64_C(0x400000)
#define TOY_PITCH       0x100

/* Offsets in a function */
enum { TOY_CALLS = 0x10, TOY_RETURN = 0xa0, TOY_SPECIAL = 0xb0 };

/* Where function @f of a page calls function @g, both counted from 0 */
#define TOY_CALL_SITE(f, g)     (TOY_PITCH * (f) + TOY_CALLS + 8 * (g))

/* @address: of the first of @n functions, whose names are @names */
struct toy_page {
    uint64_t address;
    unsigned n;
    const char *const *names;
    uint8_t bytes[BTRAIL_CODE_PAGE_SIZE];
};

/* Fills @bytes.  What changes the mode is up to the caller. */
void toy_page_fill(struct toy_page *p);

/* The bytes of function @f from an offset on */
uint8_t *toy_page_at(struct toy_page *p, unsigned f, unsigned offset);

/* Puts a call (0xe8) or jump (0xe9) at an offset of function @f. */
void toy_page_jump(struct toy_page *p, unsigned f, unsigned offset,
                   uint8_t opcode, uint64_t to);

/* Adds pages to a trace: all vCPUs have executed them with each CR3. */
void toy_pages_write(struct btrail_writer *w, const struct toy_page *pages,
                     unsigned n, unsigned vcpus, const uint64_t *cr3,
                     unsigned n_cr3);

/* Adds the functions to a text for --map; one in brackets has no symbol. */
void toy_page_names(const struct toy_page *p, GString *map);

#endif /* BTRAIL_TOY_CODE_H */
