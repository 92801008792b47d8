/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols of the kernel's modules: see modules.h
 */

#include <elf.h>
#include <string.h>

#include "guest-linux/list.h"
#include "guest-linux/modules.h"
#include "guest-linux/symbol-lines.h"
#include "util/hash.h"

#define MODULES_MAX     4096
#define SYMBOLS_MAX     (1u << 19)      /* of a module */
#define STRINGS_MAX     (16u << 20)
#define SYMBOL_MAX      512
#define AREA_MAX        (1u << 30)      /* Linux has 1.5 GB for all modules. */

/* Functions begin at multiples of this, and what is between is padding. */
#define FUNCTION_ALIGN  16

/* Where a module has code: that of its initialisation, and all other */
#define AREAS           2

struct loaded_module {
    uint64_t at;
    char name[257];
    struct linux_code areas[AREAS];
    bool has_areas;             /* this kernel says where they are */
};

struct module_walk {
    void (*visit)(struct linux_kernel *k, const struct loaded_module *m,
                  void *opaque);
    void *opaque;
};

static void read_area(struct linux_kernel *k, struct loaded_module *m,
                      unsigned i,
                      uint32_t base, uint32_t size)
{
    struct linux_code *area = &m->areas[i];
    uint64_t start;
    uint32_t bytes;

    m->has_areas |= base != LINUX_NONE && size != LINUX_NONE;
    if (linux_u64(k, m->at, base, &start) &&
        linux_u32(k, m->at, size, &bytes) && start >= LINUX_KERNEL_HALF &&
        bytes <= AREA_MAX && start <= UINT64_MAX - bytes) {
        area->start = start;
        area->end = start + bytes;
    }
}

static void read_areas(struct linux_kernel *k, struct loaded_module *m)
{
    const struct linux_layout *l = &k->layout;
    int32_t which[AREAS] = { l->module_mem_text, l->module_mem_init_text };

    if (l->module_mem == LINUX_NONE) {
        read_area(k, m, 0, l->module_core, l->module_core_text);
        read_area(k, m, 1, l->module_init, l->module_init_text);
        return;
    }
    for (unsigned i = 0; i < AREAS && l->memory_base != LINUX_NONE &&
         l->memory_size != LINUX_NONE; i++) {
        uint32_t at = l->module_mem + (uint32_t)which[i] * l->module_mem_each;

        read_area(k, m, i, at + l->memory_base, at + l->memory_size);
    }
}

static void visit_module(struct linux_kernel *k, uint64_t at, void *opaque)
{
    const struct linux_layout *l = &k->layout;
    const struct module_walk *w = opaque;
    struct loaded_module m = { .at = at };
    uint32_t state;

    if (linux_u32(k, at, l->module_state, &state) &&
        state != (uint32_t)l->module_unformed &&
        linux_string(k, at + l->module_name, m.name,
                     l->module_name_size + 1)) {
        read_areas(k, &m);
        w->visit(k, &m, w->opaque);
    }
}

/* Returns false if the list could not be read to its end. */
static bool for_each_module(struct linux_kernel *k, struct module_walk *w)
{
    const struct linux_layout *l = &k->layout;

    /* A kernel that cannot have modules has none. */
    return !k->modules || l->module_list == LINUX_NONE ||
           l->module_kallsyms == LINUX_NONE ||
           linux_list(k, k->modules, l->module_list, MODULES_MAX, visit_module,
                      w);
}

/* As struct mod_kallsyms has it */
struct module_symbols {
    uint32_t n;
    Elf64_Sym *symbols;
    char *types;
    char *strings;
    size_t strings_size;
};

static bool read_symbols(struct linux_kernel *k, const struct loaded_module *m,
                         struct module_symbols *s)
{
    const struct linux_layout *l = &k->layout;
    uint64_t kallsyms, symtab, strtab, typetab;
    uint32_t last = 0;

    if (!linux_u64(k, m->at, l->module_kallsyms, &kallsyms) ||
        !linux_pointer(kallsyms) ||
        !linux_u64(k, kallsyms, l->mod_symtab, &symtab) ||
        !linux_u64(k, kallsyms, l->mod_strtab, &strtab) ||
        !linux_u64(k, kallsyms, l->mod_typetab, &typetab) ||
        !linux_u32(k, kallsyms, l->mod_count, &s->n) || s->n > SYMBOLS_MAX) {
        return false;
    }
    s->symbols = g_new(Elf64_Sym, s->n);
    s->types = g_malloc(s->n);
    if (!page_walk_read(&k->walk, symtab, s->symbols,
                        s->n * sizeof(*s->symbols)) ||
        !page_walk_read(&k->walk, typetab, s->types, s->n)) {
        return false;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        last = MAX(last, GUINT32_FROM_LE(s->symbols[i].st_name));
    }
    s->strings_size = MIN(last, STRINGS_MAX) + SYMBOL_MAX;
    s->strings = g_malloc(s->strings_size + 1);
    s->strings_size = page_walk_read_some(&k->walk, strtab, s->strings,
                                          s->strings_size);
    s->strings[s->strings_size] = 0;
    return true;
}

static const char *name_of(const struct module_symbols *s, uint32_t i)
{
    uint32_t at = GUINT32_FROM_LE(s->symbols[i].st_name);

    return at < s->strings_size &&
           strnlen(s->strings + at, SYMBOL_MAX) < SYMBOL_MAX &&
           linux_is_name(s->strings + at) ? s->strings + at : NULL;
}

/* Gets where the code of a symbol is; false if the module has none there. */
static bool code_of(const struct loaded_module *m, const Elf64_Sym *symbol,
                    struct linux_code *code)
{
    uint64_t start = GUINT64_FROM_LE(symbol->st_value);
    uint64_t size = GUINT64_FROM_LE(symbol->st_size);
    uint64_t most = (start | (GUEST_PAGE_SIZE - 1)) + 1;

    for (unsigned i = 0; m->has_areas; i++) {
        if (i == AREAS) {
            return false;
        }
        if (start >= m->areas[i].start && start < m->areas[i].end) {
            most = m->areas[i].end;
            break;
        }
    }
    code->start = start;
    code->open = !size;
    code->end = size && size <= most - start ? start + size : most;
    return start >= LINUX_KERNEL_HALF && most > start;
}

static void add_symbols(struct linux_kernel *k, const struct loaded_module *m,
                        void *opaque)
{
    g_autoptr(GArray) codes = g_array_new(FALSE, FALSE,
                                          sizeof(struct linux_code));
    GString *text = opaque;
    struct module_symbols s = { 0 };

    if (linux_is_name(m->name) && read_symbols(k, m, &s)) {
        for (uint32_t i = 0; i < s.n; i++) {
            const Elf64_Sym *symbol = &s.symbols[i];
            const char *name = name_of(&s, i);
            char type = g_ascii_isalpha(s.types[i]) ?
                        g_ascii_tolower(s.types[i]) : '?';
            struct linux_code code;

            /* What a module that is being loaded uses of others is not its. */
            if (!name || symbol->st_shndx == SHN_UNDEF) {
                continue;
            }
            if (linux_is_code(type)) {
                if (!code_of(m, symbol, &code)) {
                    continue;
                }
                g_array_append_val(codes, code);
            }
            linux_symbol_line(text, GUINT64_FROM_LE(symbol->st_value), type,
                              name, m->name);
        }
        linux_end_lines(text, codes, FUNCTION_ALIGN, m->name);
    }
    g_free(s.symbols);
    g_free(s.types);
    g_free(s.strings);
}

bool linux_modules_symbols(struct linux_kernel *k, GString *text)
{
    return for_each_module(k, &(struct module_walk) { add_symbols, text });
}

static void mix(uint64_t *hash, uint64_t value)
{
    *hash = btrail_hash(*hash ^ value);
}

static void hash_module(struct linux_kernel *k, const struct loaded_module *m,
                        void *opaque)
{
    const struct linux_layout *l = &k->layout;
    uint64_t *hash = opaque;
    uint64_t kallsyms = 0, symtab = 0;
    uint32_t n = 0;

    /* After its initialisation a module has another table. */
    if (linux_u64(k, m->at, l->module_kallsyms, &kallsyms)) {
        linux_u64(k, kallsyms, l->mod_symtab, &symtab);
        linux_u32(k, kallsyms, l->mod_count, &n);
    }
    mix(hash, m->at);
    mix(hash, kallsyms);
    mix(hash, symtab);
    mix(hash, n);
    mix(hash, btrail_str_hash(m->name));
    for (unsigned i = 0; i < AREAS; i++) {
        mix(hash, m->areas[i].start);
        mix(hash, m->areas[i].end);
    }
}

bool linux_modules_hash(struct linux_kernel *k, uint64_t *hash)
{
    return for_each_module(k, &(struct module_walk) { hash_module, hash });
}
