/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of the kernel's code: see kernel-names.h
 */

#include <gio/gio.h>
#include <string.h>

#include "lib/agent/names-private.h"
#include "lib/agent/strings.h"
#include "lib/agent/symbol-list.h"
#include "symbolize/kernel-names.h"
#include "util/function-name.h"

/* An address this far after the last symbol of --map is not part of it. */
#define LAST_SYMBOL     (1u << 20)

/* Is a kernel that of --vmlinux, and how far are its addresses away? */
struct fit {
    bool fits;
    uint64_t bias;
};

struct kernel_names {
    struct address_space *stated;
    const struct btrail_names *names;
    struct elf_file *vmlinux;
    struct fit stated_fit;      /* of any kernel */
    struct fit *fits;           /* of each kernel with symbols of its own */
    uint32_t owns;
    struct btrail_symbol_era era;       /* the last one that was asked for */
    struct btrail_strings *strings;
};

struct kernel_names *kernel_names_new(struct address_space *stated,
                                      const struct btrail_names *names)
{
    struct kernel_names *k = g_new0(struct kernel_names, 1);

    k->stated = stated;
    k->names = names;
    k->owns = names ? btrail_names_owns(names) : 0;
    k->strings = btrail_strings_new();
    k->era = (struct btrail_symbol_era) {
        .own = UINT32_MAX, .from = 1, .last = 0,
    };
    return k;
}

void kernel_names_free(struct kernel_names *k)
{
    if (k) {
        btrail_strings_free(k->strings);
        g_free(k->fits);
        g_free(k);
    }
}

/* The era of a moment, which is mostly that of the one before */
static const struct btrail_symbol_era *era_of(struct kernel_names *k,
                                              uint32_t kernel, uint64_t time)
{
    struct btrail_symbol_era *era = &k->era;

    if (G_LIKELY(time >= era->from && time <= era->last &&
                 era->kernel == kernel)) {
        return era;
    }
    if (k->names) {
        btrail_names_era(k->names, kernel, time, era);
    } else {
        *era = (struct btrail_symbol_era) {
            0, kernel, UINT32_MAX, 0, UINT64_MAX,
        };
    }
    return era;
}

uint32_t kernel_names_era(struct kernel_names *k, uint32_t kernel,
                          uint64_t time, uint64_t *last)
{
    const struct btrail_symbol_era *era = era_of(k, kernel, time);

    if (last) {
        *last = era->last;
    }
    return era->number;
}

/* Finds what each of @n names is in a kernel's own symbols. */
static void find_own(const struct kernel_names *k, uint32_t own,
                     const char *const *names, size_t n,
                     struct symbol *symbols)
{
    struct btrail_symbol_era era;
    struct btrail_symbol s;

    memset(symbols, 0, n * sizeof(*symbols));
    for (size_t i = 0; k->names &&
         !btrail_names_symbol_era(k->names, i, &s, &era); i++) {
        for (size_t j = 0; !s.module && era.own == own && j < n; j++) {
            if (names[j] && !symbols[j].start && *names[j] == *s.name &&
                !strcmp(names[j], s.name)) {
                symbols[j] = (struct symbol) { s.address, s.end, s.name };
            }
        }
    }
}

/* The same of symbols that a person states; what is not there stays. */
static bool find_stated(struct kernel_names *k, const char *const *names,
                        size_t n, struct symbol *symbols)
{
    bool any = false;

    for (size_t i = 0; i < n; i++) {
        uint64_t address;

        if (names[i] &&
            address_space_symbol_find(k->stated, names[i], &address)) {
            any |= address_space_symbol(k->stated, address, &symbols[i]);
        }
    }
    return any;
}

bool kernel_names_all(struct kernel_names *k, const char *const *names,
                      size_t n, struct symbol *symbols)
{
    find_own(k, k->owns - 1, names, n, symbols);
    return find_stated(k, names, n, symbols) || k->owns == 1;
}

static const char *const fitting[] = {
    "_text", "_stext", "schedule", "do_exit", "vfs_read", "kernel_clone",
    "kmem_cache_alloc_noprof", "kmem_cache_alloc", "_raw_spin_lock",
};

/*
 * Is an ELF file the kernel that has these symbols?  Its functions are all at
 * the same distance from there then.
 */
static struct fit find_fit(struct elf_file *vmlinux,
                           const struct symbol *symbols, const char *path,
                           GError **error)
{
    const char *first = NULL;
    uint64_t distance = 0;

    for (unsigned i = 0; i < G_N_ELEMENTS(fitting); i++) {
        const struct elf_symbol *s = elf_file_find(vmlinux, fitting[i]);
        uint64_t address = symbols[i].start;

        if (!address || !s) {
            continue;
        }
        if (!first) {
            first = fitting[i];
            distance = address - s->start;
        } else if (address - s->start != distance) {
            g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s: not the "
                        "kernel of this guest, but another build: '%s' and "
                        "'%s' are elsewhere", path, first, fitting[i]);
            return (struct fit) { false };
        }
    }
    if (!first) {
        g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s: not the kernel "
                    "of this guest, or without symbols", path);
    }
    return (struct fit) { first, distance };
}

bool kernel_names_set_vmlinux(struct kernel_names *k, struct elf_file *vmlinux,
                              const char *path, GError **error)
{
    struct symbol symbols[G_N_ELEMENTS(fitting)] = { { 0 } };
    GError *local = NULL;
    bool any;

    k->vmlinux = vmlinux;
    if (find_stated(k, fitting, G_N_ELEMENTS(fitting), symbols)) {
        k->stated_fit = find_fit(vmlinux, symbols, path, error);
        return k->stated_fit.fits;
    }
    /* Without symbols nobody knows. */
    any = k->stated_fit.fits = !k->owns;
    k->fits = g_new0(struct fit, k->owns + 1);
    for (uint32_t i = 0; i < k->owns; i++) {
        g_clear_error(&local);
        find_own(k, i, fitting, G_N_ELEMENTS(fitting), symbols);
        k->fits[i] = find_fit(vmlinux, symbols, path, &local);
        any |= k->fits[i].fits;
    }
    if (!any) {
        g_propagate_error(error, local);
        return false;
    }
    g_clear_error(&local);
    return true;
}

struct elf_file *kernel_names_vmlinux(struct kernel_names *k, uint32_t kernel,
                                      uint64_t time, uint64_t *bias)
{
    const struct fit *fit = &k->stated_fit;

    if (!k->vmlinux) {
        return NULL;
    }
    if (!fit->fits) {
        const struct btrail_symbol_era *era = era_of(k, kernel, time);

        if (era->own >= k->owns) {
            return NULL;
        }
        fit = &k->fits[era->own];
    }
    *bias = fit->bias;
    return fit->fits ? k->vmlinux : NULL;
}

const struct elf_file *kernel_names_file(const struct kernel_names *k)
{
    return k->vmlinux;
}

/*
 * The symbol of the trace as one with its module in brackets; false if its
 * names are not UTF-8, or it is not code
 */
static bool take_symbol(struct kernel_names *k, const struct btrail_symbol *s,
                        struct symbol *symbol)
{
    g_autofree char *module = NULL;

    if (!btrail_symbol_is_code(s->type) ||
        !g_utf8_validate(s->name, -1, NULL) ||
        (s->module && !g_utf8_validate(s->module, -1, NULL))) {
        return false;
    }
    *symbol = (struct symbol) { s->address, s->end, s->name };
    if (s->module) {
        module = g_strdup_printf("[%s]", s->module);
        symbol->module = btrail_strings_keep(k->strings, module,
                                             strlen(module));
    }
    return true;
}

bool kernel_names_find(struct kernel_names *k, uint32_t kernel, uint64_t time,
                       uint64_t address, struct symbol *symbol)
{
    const struct btrail_symbol_era *era = era_of(k, kernel, time);
    struct btrail_symbol s;
    bool traced = k->names && !btrail_names_era_symbol(k->names, era->number,
                                                       address, &s);
    bool stated = address_space_symbol(k->stated, address, symbol) &&
                  (symbol->end != UINT64_MAX ||
                   address - symbol->start <= LAST_SYMBOL);

    if (!stated || (traced && s.address > symbol->start)) {
        if (stated) {
            s.end = MIN(s.end, symbol->end);
        }
        return traced && take_symbol(k, &s, symbol);
    }
    if (traced) {
        symbol->end = MIN(symbol->end, s.end);
    }
    return true;
}

void kernel_starts_traced(const struct btrail_names *names, const char *name,
                          GArray *starts)
{
    struct btrail_symbol_era era;
    struct btrail_symbol s;

    for (size_t i = 0; !btrail_names_symbol_era(names, i, &s, &era); i++) {
        if (btrail_symbol_is_code(s.type) && function_name_is(s.name, name)) {
            kernel_start_add(starts, s.address, &era);
        }
    }
}

void kernel_start_add(GArray *starts, uint64_t address,
                      const struct btrail_symbol_era *era)
{
    const struct kernel_start start = {
        .address = address, .always = !era, .from = era ? era->from : 0,
        .last = era ? era->last : 0, .kernel = era ? era->kernel : 0,
    };

    g_array_append_val(starts, start);
}

/*
 * Functions of the ELF file, while the kernel that it is may run; NULL: all the
 * time
 */
static void add_vmlinux(const struct kernel_names *k, const char *name,
                        const struct fit *fit,
                        const struct btrail_symbol_era *era, GArray *starts)
{
    size_t n;
    const struct elf_symbol *all = elf_file_symbols(k->vmlinux, &n);
    const GArray *found = elf_file_find_all(k->vmlinux, name);

    for (unsigned i = 0; i < found->len; i++) {
        kernel_start_add(starts, all[g_array_index(found, unsigned, i)].start +
                         fit->bias, era);
    }
}

/* The same for each time at which a kernel of the trace is the file's */
static void add_vmlinux_traced(const struct kernel_names *k, const char *name,
                               GArray *starts)
{
    struct btrail_symbol_era era, last = { .own = UINT32_MAX };
    struct btrail_symbol s;

    for (size_t i = 0; !btrail_names_symbol_era(k->names, i, &s, &era); i++) {
        if (s.module || era.own >= k->owns ||
            (era.own == last.own && era.from == last.from &&
             era.kernel == last.kernel)) {
            continue;
        }
        last = era;
        if (k->fits[era.own].fits) {
            add_vmlinux(k, name, &k->fits[era.own], &era, starts);
        }
    }
}

void kernel_names_starts(struct kernel_names *k, const char *name,
                         GArray *starts)
{
    g_autoptr(GArray) stated = g_array_new(FALSE, FALSE, sizeof(uint64_t));

    /*
     * If there is none, this is quicker than going through all of its
     * functions.
     */
    if (k->vmlinux && elf_file_find(k->vmlinux, name)) {
        if (k->stated_fit.fits) {
            add_vmlinux(k, name, &k->stated_fit, NULL, starts);
        } else {
            add_vmlinux_traced(k, name, starts);
        }
    }
    address_space_starts(k->stated, name, stated);
    for (unsigned i = 0; i < stated->len; i++) {
        kernel_start_add(starts, g_array_index(stated, uint64_t, i), NULL);
    }
    if (k->names) {
        kernel_starts_traced(k->names, name, starts);
    }
}
