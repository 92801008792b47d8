/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions with which a kernel writes code, or frees it
 *
 * Code outside of the kernel's image, of modules and eBPF programs, is another
 * one afterwards, or gone: all that was executed of it before was so before a
 * call of one of these.
 */

#ifndef LINUX_CODE_WRITERS_H
#define LINUX_CODE_WRITERS_H

#include <glib.h>

#include "guest-linux/kernel.h"

/* What is told apart of addresses */
#define LINUX_WRITERS_STEP  16u

/**
 * struct linux_code_writers
 * @start:  the first address of any of them
 * @steps:  of LINUX_WRITERS_STEP bytes, up to the end of the last one
 * @bits:   one for each step: some of them is there
 * @count:  how many functions there are
 * @image, @image_end: the kernel's own code is between them
 */
struct linux_code_writers {
    uint64_t start;
    uint64_t steps;
    uint8_t *bits;
    unsigned count;
    uint64_t image;
    uint64_t image_end;
};

/* NULL if the kernel's symbols have none, or not where its image is, as with
 * those of 32 bits */
struct linux_code_writers *linux_code_writers_new(const struct linux_kernel *k);
void linux_code_writers_free(struct linux_code_writers *w);

/* Is an address in one of them, or right after it? */
static inline bool linux_code_writers_have(const struct linux_code_writers *w,
                                           uint64_t address)
{
    uint64_t step = (address - w->start) / LINUX_WRITERS_STEP;

    return step < w->steps && (w->bits[step / 8] >> (step % 8) & 1);
}

/* Is this the name of one, with what compilers append to it? */
bool linux_is_code_writer(const char *name);

#endif /* LINUX_CODE_WRITERS_H */
