/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Places: see places.h
 */

#include <string.h>

#include "lib/internal/strings.h"
#include "symbolize/content-mappings.h"
#include "symbolize/places.h"
#include "symbolize/syscall-name.h"
#include "util/hash.h"

/* An address so far behind the last symbol of all is not part of it. */
#define LAST_SYMBOL     (1u << 20)

/* Places that were found before */
#define CACHE_SIZE      (1u << 15)

struct found_place {
    const struct process *process;
    unsigned changes;           /* @process's, then */
    uint64_t address;
    struct place place;
};

struct places {
    struct elf_files *files;
    struct elf_file *vmlinux;
    uint64_t vmlinux_bias;      /* of addresses in the guest to its own */
    struct address_space *shared;
    const struct btrail_names *names;
    struct processes *processes;
    struct content_mappings *contents;
    GHashTable *modules;        /* path -> struct module */
    GHashTable *coming;         /* btrail_mapping -> struct mapping */
    struct btrail_strings *strings;
    struct found_place *cache;
};

static void free_module(gpointer p)
{
    struct module *module = p;

    g_hash_table_unref(module->functions);
    g_free(module);
}

/*
 * The kernel may be at other addresses than its file has.  A symbol that both
 * have gives the difference.
 */
static void find_bias(struct places *p)
{
    static const char *const names[] = { "_text", "_stext", "startup_64" };
    uint64_t address;

    for (unsigned i = 0; p->vmlinux && i < G_N_ELEMENTS(names); i++) {
        const struct elf_symbol *symbol = elf_file_find(p->vmlinux, names[i]);

        if (symbol &&
            address_space_symbol_find(p->shared, names[i], &address)) {
            p->vmlinux_bias = address - symbol->start;
            return;
        }
    }
}

struct places *places_new(struct elf_files *files, struct elf_file *vmlinux,
                          struct address_space *shared,
                          const struct btrail_names *names,
                          struct processes *processes,
                          struct content_mappings *contents)
{
    struct places *p = g_new0(struct places, 1);

    p->files = files;
    p->vmlinux = vmlinux;
    p->shared = shared;
    p->names = names;
    p->processes = processes;
    p->contents = contents;
    p->modules = g_hash_table_new_full(btrail_str_hash, g_str_equal, NULL,
                                       free_module);
    p->coming = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    p->strings = btrail_strings_new();
    p->cache = g_new0(struct found_place, CACHE_SIZE);
    find_bias(p);
    return p;
}

void places_free(struct places *p)
{
    if (p) {
        g_hash_table_unref(p->modules);
        g_hash_table_unref(p->coming);
        btrail_strings_free(p->strings);
        g_free(p->cache);
        g_free(p);
    }
}

static struct module *get_module(struct places *p, const char *path,
                                 bool kernel)
{
    struct module *module = g_hash_table_lookup(p->modules, path);
    const char *slash;

    if (!module) {
        module = g_new0(struct module, 1);
        module->path = btrail_strings_keep(p->strings, path, strlen(path));
        slash = strrchr(module->path, '/');
        module->name = slash && slash[1] ? slash + 1 : module->path;
        module->kernel = kernel;
        module->bits = 64;
        module->functions = g_hash_table_new_full(btrail_int64_hash,
                                                  g_int64_equal, NULL,
                                                  g_free);
        g_hash_table_insert(p->modules, (char *)module->path, module);
    }
    return module;
}

static const struct function *get_function(struct places *p,
                                           struct module *module,
                                           uint64_t start, uint64_t end,
                                           const char *name)
{
    /* No function begins with the last byte of memory. */
    gint64 key = name ? start : UINT64_MAX;
    struct function *f = g_hash_table_lookup(module->functions, &key);

    if (!f) {
        f = g_new0(struct function, 1);
        f->start = key;
        f->end = end;
        f->module = module;
        f->known = name;
        name = name ? name : NAME_UNKNOWN;
        f->name = btrail_strings_keep(p->strings, name, strlen(name));
        if (f->known && module->kernel) {
            f->syscall = syscall_name(p->names, processes_time(p->processes),
                                      module->elf && module->elf == p->vmlinux ?
                                      start + p->vmlinux_bias : start,
                                      f->name);
        }
        g_hash_table_insert(module->functions, &f->start, f);
    }
    return f;
}

static void set_place(struct places *p, struct place *place,
                      struct module *module, uint64_t address,
                      uint64_t start, uint64_t end, const char *name)
{
    place->function = get_function(p, module, start, end, name);
    place->address = address;
    place->offset = name ? address - start : address;
}

static void find_file(struct places *p, struct mapping *m, const char *path)
{
    if (!m->looked) {
        m->looked = true;
        m->elf = elf_files_get(p->files, path, m->build_id);
    }
}

/* Sets @place for an address in a mapping. */
static void place_in_mapping(struct places *p,
                             const struct process *process,
                             struct mapping *m, uint64_t address,
                             struct place *place)
{
    const char *path = process->bits == 32 && !strcmp(m->path, PLACES_VDSO) ?
                       PLACES_VDSO32 : m->path;
    const struct elf_symbol *symbol;
    struct module *module;
    uint64_t in_file = address - m->start + m->offset;

    find_file(p, m, path);
    module = get_module(p, *path ? path : NAME_UNKNOWN,
                        m->start >= ADDRESS_SHARED);
    if (!module->build_id && m->build_id) {
        module->build_id = btrail_strings_keep(p->strings, m->build_id,
                                               strlen(m->build_id));
    }
    if (!m->elf || !elf_file_address(m->elf, in_file, &address)) {
        set_place(p, place, module, in_file, 0, UINT64_MAX, NULL);
        return;
    }
    if (!module->elf) {
        module->elf = m->elf;
        module->bits = elf_file_info(m->elf)->bits;
    }
    symbol = elf_file_symbol(m->elf, address);
    set_place(p, place, module, address, symbol ? symbol->start : 0,
              symbol ? symbol->end : UINT64_MAX, symbol ? symbol->name : NULL);
}

static bool place_by_symbol(struct places *p, struct address_space *as,
                            const struct mapping *m, uint64_t address,
                            struct place *place)
{
    const struct symbol *symbol = address_space_symbol(as, address);
    const char *path;

    if (!symbol || (m && symbol->start < m->start) ||
        (symbol->end == UINT64_MAX &&
         address - symbol->start > LAST_SYMBOL)) {
        return false;
    }
    path = symbol->module ? symbol->module : m && *m->path ? m->path :
           address >= ADDRESS_SHARED ? NAME_KERNEL : NAME_UNKNOWN;
    set_place(p, place, get_module(p, path, address >= ADDRESS_SHARED),
              address, symbol->start, symbol->end, symbol->name);
    return true;
}

static bool place_in_vmlinux(struct places *p, uint64_t address,
                             struct place *place)
{
    const struct elf_symbol *symbol;
    struct module *module;

    if (!p->vmlinux || address < ADDRESS_SHARED) {
        return false;
    }
    address -= p->vmlinux_bias;
    symbol = elf_file_symbol(p->vmlinux, address);
    if (!symbol) {
        return false;
    }
    module = get_module(p, NAME_KERNEL, true);
    module->elf = p->vmlinux;
    set_place(p, place, module, address, symbol->start, symbol->end,
              symbol->name);
    return true;
}

/* The mapping of code at an address in a version of a process, or NULL */
static struct mapping *find_coming(struct places *p,
                                   const struct process *process,
                                   uint64_t address)
{
    const struct btrail_mapping *coming = NULL;
    struct mapping *m;

    if (process->seen) {
        btrail_names_mapping(p->names, process->seen,
                             processes_time(p->processes), address, &coming);
    }
    if (!coming || !(coming->flags & BTRAIL_MAPPING_EXEC)) {
        return NULL;
    }
    m = g_hash_table_lookup(p->coming, coming);
    if (!m) {
        m = g_new(struct mapping, 1);
        *m = processes_mapping(p->processes, coming);
        g_hash_table_insert(p->coming, (gpointer)coming, m);
    }
    return m;
}

static bool is_named_code(const struct mapping *m)
{
    return m && m->code && *m->path;
}

/*
 * The mapping of code at an address of a process.  A process can use a mapping
 * before a snapshot finds it, or without any that does; and what a snapshot
 * finds may be about to change, as while a program is loaded.
 */
static struct mapping *find_mapping(struct places *p,
                                    const struct process *process,
                                    uint64_t address)
{
    struct mapping *m = address_space_find(process->space, address);
    struct mapping *other = process->late || !is_named_code(m) ?
                            find_coming(p, process, address) : NULL;

    m = other ? other : m;
    if (is_named_code(m) || !p->contents) {
        return m;
    }
    other = content_mappings_find(p->contents, process, address);
    return other ? other : m;
}

static void find_place(struct places *p, const struct process *process,
                       uint64_t address, struct place *place)
{
    bool shared = address >= ADDRESS_SHARED;
    struct address_space *as = shared ? p->shared : process->space;
    struct mapping *m = shared ? address_space_find(as, address) :
                        find_mapping(p, process, address);
    const char *pseudo = btrail_pseudo_name(address);

    if (pseudo) {
        set_place(p, place, get_module(p, shared ? NAME_KERNEL :
                                       NAME_UNKNOWN, shared),
                  address, address, address + 1, pseudo);
        return;
    }
    if (place_in_vmlinux(p, address, place) ||
        place_by_symbol(p, as, m, address, place)) {
        return;
    }
    if (m) {
        place_in_mapping(p, process, m, address, place);
    } else {
        set_place(p, place, get_module(p, shared ? NAME_KERNEL :
                                       NAME_UNKNOWN, shared),
                  address, 0, UINT64_MAX, NULL);
    }
}

void places_find(struct places *p, const struct process *process,
                 uint64_t address, struct place *place)
{
    size_t hash = btrail_hash2(address, (uintptr_t)process->owner) >> 32;
    struct found_place *c = &p->cache[hash % CACHE_SIZE];

    process = process->owner;
    if (c->address != address || c->process != process ||
        c->changes != process->changes) {
        find_place(p, process, address, &c->place);
        c->address = address;
        c->process = process;
        c->changes = process->changes;
    }
    *place = c->place;
}

static void call_file(struct places *p, struct mapping *m,
                      places_file_fn *fn, void *opaque)
{
    uint64_t address;

    find_file(p, m, m->path);
    if (m->elf && elf_file_address(m->elf, m->offset, &address)) {
        fn(opaque, m, m->start - address);
    }
}

void places_files(struct places *p, const struct process *process,
                  uint64_t address, places_file_fn *fn, void *opaque)
{
    struct mapping *here = address < ADDRESS_SHARED ?
                           find_mapping(p, process->owner, address) : NULL;
    size_t n;
    struct mapping *m = address_space_mappings(process->owner->space, &n);

    for (size_t i = 0; i < n; i++) {
        if (is_named_code(&m[i]) && (!here || m[i].start != here->start)) {
            call_file(p, &m[i], fn, opaque);
        }
    }
    if (is_named_code(here)) {
        call_file(p, here, fn, opaque);
    }
}

/* The same of one file, whose addresses are @bias lower */
static void add_starts(struct elf_file *elf, uint64_t bias, const char *name,
                       GArray *addresses)
{
    size_t n;
    const struct elf_symbol *all = elf_file_symbols(elf, &n);

    /* This is quicker than all of them if there is none. */
    if (!elf_file_find(elf, name)) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t address = all[i].start + bias;

        if (!strcmp(all[i].name, name)) {
            g_array_append_val(addresses, address);
        }
    }
}

void places_starts(struct places *p, const char *name, GArray *addresses)
{
    if (p->vmlinux) {
        add_starts(p->vmlinux, p->vmlinux_bias, name, addresses);
    }
    address_space_starts(p->shared, name, addresses);
}

void places_starts_in(struct places *p, const struct btrail_process *version,
                      const char *name, GArray *addresses)
{
    for (uint32_t i = 0; i < version->n_mappings; i++) {
        struct mapping m = processes_mapping(p->processes,
                                             &version->mappings[i]);
        uint64_t address;

        if (is_named_code(&m)) {
            find_file(p, &m, m.path);
        }
        if (m.elf && elf_file_address(m.elf, m.offset, &address)) {
            add_starts(m.elf, m.start - address, name, addresses);
        }
    }
}

/* The file that is mapped at an address, which becomes one in the file; @n: at
 * most so many bytes, as far as the mapping goes.  NULL if there is none. */
static struct elf_file *file_at(struct places *p,
                                const struct process *process,
                                struct mapping *m, uint64_t *address,
                                size_t *n)
{
    uint64_t in_file;
    struct place place;

    if (!m) {
        return NULL;
    }
    *n = MIN(*n, m->end - *address);
    in_file = *address - m->start + m->offset;
    /* This finds the file. */
    places_find(p, process, *address, &place);
    return m->elf && elf_file_address(m->elf, in_file, address) ? m->elf :
           NULL;
}

size_t places_read(struct places *p, const struct process *process,
                   uint64_t address, void *buf, size_t n)
{
    bool shared = address >= ADDRESS_SHARED;
    struct elf_file *f;
    size_t got = shared && p->vmlinux ?
                 elf_file_read(p->vmlinux, address - p->vmlinux_bias, buf,
                               n) : 0;

    if (got) {
        return got;
    }
    f = file_at(p, process, shared ? address_space_find(p->shared, address) :
                find_mapping(p, process->owner, address), &address, &n);
    return f ? elf_file_read(f, address, buf, n) : 0;
}

size_t places_read_constant(struct places *p, const struct process *process,
                            uint64_t address, void *buf, size_t n)
{
    struct elf_file *f = address >= ADDRESS_SHARED ? NULL :
        file_at(p, process, find_mapping(p, process->owner, address), &address,
                &n);

    return f ? elf_file_read_constant(f, address, buf, n) : 0;
}
