/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols of the kernel and its modules: see modules.h
 */

#include <elf.h>
#include <string.h>

#include "guest-linux/modules.h"
#include "util/hash.h"

#define MODULES_MAX     4096
#define SYMBOLS_MAX     (1u << 19)      /* of a module */
#define STRINGS_MAX     (16u << 20)
#define SYMBOL_MAX      512

typedef void module_visitor(struct linux_kernel *k, uint64_t module,
                            const char *name, void *opaque);

/* Returns false if the list could not be read to its end. */
static bool for_each_module(struct linux_kernel *k, module_visitor *visit,
                            void *opaque)
{
    const struct linux_layout *l = &k->layout;
    uint64_t at;

    if (!k->modules || l->module_list == LINUX_NONE ||
        l->module_kallsyms == LINUX_NONE ||
        !page_walk_u64(&k->walk, k->modules, &at)) {
        return false;
    }
    for (unsigned n = 0; at != k->modules; n++) {
        uint64_t module = at - l->module_list;
        uint64_t next, prev;
        uint32_t state;
        char name[257];

        /* The next node must point back to this one. */
        if (n == MODULES_MAX || !linux_pointer(at) ||
            !page_walk_u64(&k->walk, at, &next) || !linux_pointer(next) ||
            !page_walk_u64(&k->walk, next + 8, &prev) || prev != at) {
            return false;
        }
        if (linux_u32(k, module, l->module_state, &state) &&
            state != (uint32_t)l->module_unformed &&
            linux_string(k, module + l->module_name, name,
                         l->module_name_size + 1)) {
            visit(k, module, name, opaque);
        }
        at = next;
    }
    return true;
}

static void append_line(GString *text, uint64_t address, char type,
                        const char *name, const char *module)
{
    static const char digits[] = "0123456789abcdef";
    size_t before = text->len;
    char head[19];

    /* printf would be too slow for this many symbols. */
    for (unsigned i = 0; i < 16; i++) {
        head[i] = digits[address >> (60 - 4 * i) & 15];
    }
    head[16] = ' ';
    head[17] = type;
    head[18] = ' ';
    g_string_append_len(text, head, sizeof(head));
    g_string_append(text, name);
    if (module) {
        g_string_append(text, "\t[");
        g_string_append(text, module);
        g_string_append_c(text, ']');
    }
    g_string_append_c(text, '\n');
    if (text->len > LINUX_SYMBOLS_MAX) {
        g_string_truncate(text, before);
    }
}

/* Can it be a name in a line of text? */
static bool printable(const char *name)
{
    for (; *name; name++) {
        if ((unsigned char)*name <= ' ' || *name == 127) {
            return false;
        }
    }
    return true;
}

static void add_symbols_of(struct linux_kernel *k, uint64_t module,
                           const char *name, void *opaque)
{
    const struct linux_layout *l = &k->layout;
    GString *text = opaque;
    uint64_t kallsyms, symtab, strtab, typetab;
    uint32_t n;
    g_autofree Elf64_Sym *symbols = NULL;
    g_autofree char *types = NULL;
    size_t size;

    if (!*name || !printable(name) ||
        !linux_u64(k, module, l->module_kallsyms, &kallsyms) ||
        !linux_pointer(kallsyms) ||
        !linux_u64(k, kallsyms, l->mod_symtab, &symtab) ||
        !linux_u64(k, kallsyms, l->mod_strtab, &strtab) ||
        !linux_u64(k, kallsyms, l->mod_typetab, &typetab) ||
        !linux_u32(k, kallsyms, l->mod_count, &n) || n > SYMBOLS_MAX) {
        return;
    }
    symbols = g_new(Elf64_Sym, n);
    types = g_malloc(n);
    if (page_walk_read(&k->walk, symtab, symbols, n * sizeof(*symbols)) &&
        page_walk_read(&k->walk, typetab, types, n)) {
        g_autofree char *strings = NULL;
        uint32_t last = 0;

        for (uint32_t i = 0; i < n; i++) {
            last = MAX(last, GUINT32_FROM_LE(symbols[i].st_name));
        }
        size = MIN(last, STRINGS_MAX) + SYMBOL_MAX;
        strings = g_malloc(size + 1);
        size = page_walk_read_some(&k->walk, strtab, strings, size);
        strings[size] = 0;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t at = GUINT32_FROM_LE(symbols[i].st_name);

            if (at < size && strings[at] &&
                strnlen(strings + at, SYMBOL_MAX) < SYMBOL_MAX &&
                printable(strings + at)) {
                append_line(text, GUINT64_FROM_LE(symbols[i].st_value),
                            g_ascii_isalpha(types[i]) ?
                            g_ascii_tolower(types[i]) : '?',
                            strings + at, name);
            }
        }
    }
}

GString *linux_symbols(struct linux_kernel *k)
{
    GString *text = g_string_new(NULL);
    uint32_t n = kallsyms_count(k->symbols);

    for (uint32_t i = 0; i < n; i++) {
        const char *name;
        uint64_t address;
        char type;

        kallsyms_get(k->symbols, i, &address, &type, &name);
        if (printable(name)) {
            append_line(text, address, type, name, NULL);
        }
    }
    for_each_module(k, add_symbols_of, text);
    return text;
}

static void hash_module(struct linux_kernel *k, uint64_t module,
                        const char *name, void *opaque)
{
    uint64_t *hash = opaque;
    uint64_t symbols = 0;

    /* After its initialisation a module has another table. */
    linux_u64(k, module, k->layout.module_kallsyms, &symbols);
    *hash = btrail_hash(*hash ^ module ^ symbols << 1 ^ btrail_str_hash(name));
}

uint64_t linux_modules_hash(struct linux_kernel *k)
{
    uint64_t hash = 1;

    return for_each_module(k, hash_module, &hash) ? hash | 1 : 0;
}
