/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * VMCOREINFO: what a Linux kernel tells those who read its memory (see
 * Documentation/admin-guide/kdump/vmcoreinfo.rst)
 */

#ifndef VMCOREINFO_H
#define VMCOREINFO_H

#include "guest-linux/guest-memory.h"

/* The kernel's is a page, the note that has it a header more. */
#define VMCOREINFO_MAX  (16u << 10)

struct vmcoreinfo {
    char text[VMCOREINFO_MAX + 1];
};

/* The ELF note at this physical address; false if there is none */
bool vmcoreinfo_note(struct vmcoreinfo *v, const struct guest_memory *m,
                     uint64_t address, uint64_t size);

/*
 * The next page, from *@from on, that has one; *@from is behind it then.  Who
 * is able to write to memory is able to write something that looks like it, so
 * what it says is to be checked, and the next one to be tried.
 */
bool vmcoreinfo_find(struct vmcoreinfo *v, const struct guest_memory *m,
                     uint64_t *from);

/* NULL, or the value of "KEY=", up to the end of the line, to be freed */
char *vmcoreinfo_string(const struct vmcoreinfo *v, const char *key);

/* SYMBOL(name)=, NUMBER(name)= */
bool vmcoreinfo_symbol(const struct vmcoreinfo *v, const char *name,
                       uint64_t *value);
bool vmcoreinfo_number(const struct vmcoreinfo *v, const char *name,
                       int64_t *value);

#endif /* VMCOREINFO_H */
