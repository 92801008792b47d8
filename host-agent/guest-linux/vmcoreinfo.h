/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * VMCOREINFO: what a Linux kernel says of itself for tools that read its memory
 * (see Documentation/admin-guide/kdump/vmcoreinfo.rst)
 */

#ifndef VMCOREINFO_H
#define VMCOREINFO_H

#include "guest-linux/guest-memory.h"

/* The kernel's text is a page; the note has a header, too. */
#define VMCOREINFO_MAX  (16u << 10)

struct vmcoreinfo {
    char text[VMCOREINFO_MAX + 1];
};

/* Reads the ELF note at a physical address; returns false if none. */
bool vmcoreinfo_note(struct vmcoreinfo *v, const struct guest_memory *m,
                     uint64_t address, uint64_t size);

/*
 * Reads the next page from *@from on that has one, and moves *@from past it.
 * A process of the guest can make such a page, so the caller must check what it
 * says, and try the next one.
 */
bool vmcoreinfo_find(struct vmcoreinfo *v, const struct guest_memory *m,
                     uint64_t *from);

/* Returns the value of "KEY=", up to the end of its line; NULL if none */
char *vmcoreinfo_string(const struct vmcoreinfo *v, const char *key);

/* SYMBOL(name)=, NUMBER(name)= */
bool vmcoreinfo_symbol(const struct vmcoreinfo *v, const char *name,
                       uint64_t *value);
bool vmcoreinfo_number(const struct vmcoreinfo *v, const char *name,
                       int64_t *value);

#endif /* VMCOREINFO_H */
