/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of system calls: see syscall-name.h
 */

#include <glib.h>
#include <string.h>

#include "symbolize/syscall-name.h"
#include "syscall-names.h"

/* A system call that has an argument is a function with such a name. */
static const char *name_in(const char *function)
{
    static const char *const prefixes[] = {
        "__x64_sys_", "__ia32_compat_sys_", "__ia32_sys_",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(prefixes); i++) {
        if (g_str_has_prefix(function, prefixes[i])) {
            return function + strlen(prefixes[i]);
        }
    }
    return NULL;
}

static const char *name_of(const struct btrail_syscall *s)
{
    const char *const *names = s->bits == 64 ? syscall_names_64 :
                               syscall_names_32;
    size_t n = s->bits == 64 ? G_N_ELEMENTS(syscall_names_64) :
               G_N_ELEMENTS(syscall_names_32);

    return s->number < n ? names[s->number] : NULL;
}

const char *syscall_name(const struct btrail_names *names, uint32_t kernel,
                         uint64_t time, uint64_t start, const char *function)
{
    const char *spelled = name_in(function), *name = NULL;
    struct btrail_syscall s;

    if (!names || btrail_names_syscall(names, kernel, time, start, &s)) {
        return spelled;
    }
    /*
     * The function that stands for all unused numbers has no name of its
     * own.
     */
    if (s.numbers == 1) {
        name = name_of(&s);
    }
    return name ? name : spelled ? spelled : function;
}
