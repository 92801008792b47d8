/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Places: see places.h
 */

#include <string.h>

#include "lib/agent/strings.h"
#include "symbolize/content-mappings.h"
#include "symbolize/places.h"
#include "symbolize/syscall-name.h"
#include "util/demangle.h"
#include "util/hash.h"

/* An address this far after the last symbol of all is not part of it. */
#define LAST_SYMBOL     (1u << 20)

/* Places that were found before */
#define CACHE_SIZE      (1u << 15)

struct found_place {
    const struct process *process;
    unsigned changes;           /* @process's, then */
    uint32_t era;               /* of the names of the kernel's code */
    bool timed;                 /* it depends on what is mapped @coming */
    const struct mapping *coming;
    uint64_t address;
    struct place place;
};

struct places {
    struct elf_files *files;
    struct kernel_names *kernel;
    struct address_space *shared;
    const struct btrail_names *names;
    struct processes *processes;
    struct content_mappings *contents;
    bool mangled;
    GHashTable *modules;        /* of struct module */
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

/* Are they one file, which can have been opened twice? */
static bool same_file(struct elf_file *a, struct elf_file *b)
{
    const char *id = a ? elf_file_info(a)->build_id : NULL;

    return a == b || (id && b && !g_strcmp0(id, elf_file_info(b)->build_id));
}

static guint hash_module(gconstpointer p)
{
    return btrail_str_hash(((const struct module *)p)->path);
}

/*
 * Containers, kernels that follow each other, and programs that are replaced
 * while they run have other files of the same path.
 */
static gboolean equal_modules(gconstpointer a, gconstpointer b)
{
    const struct module *x = a, *y = b;

    return same_file(x->elf, y->elf) && !strcmp(x->path, y->path) &&
           (x->elf || !g_strcmp0(x->build_id, y->build_id));
}

/* Functions of a module of the kernel can take the places of others. */
static guint hash_function(gconstpointer p)
{
    const struct function *f = p;

    return btrail_hash2(f->start, btrail_str_hash(f->symbol)) >> 32;
}

static gboolean equal_functions(gconstpointer a, gconstpointer b)
{
    const struct function *x = a, *y = b;

    return x->start == y->start && x->known == y->known &&
           !strcmp(x->symbol, y->symbol);
}

struct places *places_new(struct elf_files *files,
                          struct kernel_names *kernel,
                          struct address_space *shared,
                          const struct btrail_names *names,
                          struct processes *processes,
                          struct content_mappings *contents, bool mangled)
{
    struct places *p = g_new0(struct places, 1);

    p->files = files;
    p->kernel = kernel;
    p->shared = shared;
    p->names = names;
    p->processes = processes;
    p->contents = contents;
    p->mangled = mangled;
    p->modules = g_hash_table_new_full(hash_module, equal_modules,
                                       free_module, NULL);
    p->coming = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    p->strings = btrail_strings_new();
    p->cache = g_new0(struct found_place, CACHE_SIZE);
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

static const char *keep_build_id(struct places *p, const char *build_id)
{
    return build_id ? btrail_strings_keep(p->strings, build_id,
                                          strlen(build_id)) : NULL;
}

/* @elf and @build_id can be NULL. */
static struct module *get_module(struct places *p, const char *path,
                                 struct elf_file *elf, const char *build_id,
                                 bool kernel)
{
    const struct module key = {
        .path = path, .elf = elf, .build_id = build_id,
    };
    struct module *module = g_hash_table_lookup(p->modules, &key);
    const char *slash;

    if (!module) {
        module = g_new0(struct module, 1);
        module->path = btrail_strings_keep(p->strings, path, strlen(path));
        slash = strrchr(module->path, '/');
        module->name = slash && slash[1] ? slash + 1 : module->path;
        module->elf = elf;
        module->kernel = kernel;
        module->build_id = keep_build_id(p, build_id);
        module->bits = elf ? elf_file_info(elf)->bits : 64;
        module->functions = g_hash_table_new_full(hash_function,
                                                  equal_functions, NULL,
                                                  g_free);
        g_hash_table_add(p->modules, module);
    }
    if (!module->build_id) {
        module->build_id = keep_build_id(p, build_id);
    }
    return module;
}

/**
 * struct found - what is at an address
 * @where:  the place in the trace
 * @bias:   of addresses in the guest to those in the module
 */
struct found {
    const struct symbolizer_where *where;
    struct module *module;
    uint64_t bias;
    uint64_t start;
    uint64_t end;
    const char *name;
};

static const char *keep(struct places *p, const char *text)
{
    return btrail_strings_keep(p->strings, text, strlen(text));
}

static const struct function *get_function(struct places *p,
                                           const struct found *found)
{
    struct module *module = found->module;
    const struct function key = {
        .start = found->name ? found->start : UINT64_MAX, .known = found->name,
        .symbol = found->name ? found->name : NAME_UNKNOWN,
    };
    struct function *f = g_hash_table_lookup(module->functions, &key);
    g_autofree char *name = NULL, *brief = NULL;

    if (!f) {
        f = g_memdup2(&key, sizeof(key));
        f->end = found->end;
        f->module = module;
        f->symbol = keep(p, key.symbol);
        name = p->mangled ? NULL : demangle(f->symbol, true);
        f->name = name ? keep(p, name) : f->symbol;
        brief = name ? demangle(f->symbol, false) : NULL;
        f->brief = brief && strcmp(brief, name) ? keep(p, brief) : NULL;
        if (f->known && module->kernel) {
            f->syscall = syscall_name(p->names, found->where->kernel,
                                      found->where->time,
                                      f->start + found->bias, f->symbol);
        }
        g_hash_table_add(module->functions, f);
    }
    return f;
}

static void set_place(struct places *p, struct place *place,
                      uint64_t address, const struct found *found)
{
    place->function = get_function(p, found);
    place->address = address;
    place->offset = found->name ? address - found->start : address;
}

static void set_unknown(struct places *p, struct place *place,
                        struct module *module, uint64_t address)
{
    const struct found found = { .module = module, .end = UINT64_MAX };

    set_place(p, place, address, &found);
}

void places_find_in(struct places *p, const struct symbolizer_where *where,
                    struct module *module, uint64_t address,
                    struct place *place)
{
    const struct elf_symbol *symbol = module->elf ?
        elf_file_symbol(module->elf, address) : NULL;

    if (!symbol) {
        set_unknown(p, place, module, address);
        return;
    }
    set_place(p, place, address, &(struct found) {
        .where = where, .module = module, .start = symbol->start,
        .end = symbol->end, .name = symbol->name,
    });
}

/* The path of what is mapped in a program of 32 or 64 bits */
static const char *path_of(const struct mapping *m, unsigned bits)
{
    return bits == 32 && !strcmp(m->path, MAPPING_VDSO) ? MAPPING_VDSO32 :
           m->path;
}

static void find_file(struct places *p, struct mapping *m, unsigned bits)
{
    if (!m->looked) {
        m->looked = true;
        m->elf = elf_files_get(p->files, path_of(m, bits), m->build_id);
    }
}

/* Sets @place for an address in a mapping. */
static void place_in_mapping(struct places *p,
                             const struct process *process,
                             const struct symbolizer_where *where,
                             struct mapping *m, uint64_t address,
                             struct place *place)
{
    const char *path = path_of(m, process->bits);
    struct module *module;
    uint64_t in_file = address - m->start + m->offset;

    find_file(p, m, process->bits);
    module = get_module(p, *path ? path : NAME_UNKNOWN, m->elf, m->build_id,
                        m->start >= ADDRESS_SHARED);
    if (!m->elf || !elf_file_address(m->elf, in_file, &address)) {
        set_unknown(p, place, module, in_file);
        return;
    }
    places_find_in(p, where, module, address, place);
}

/* The symbol of --map or of the kernel at an address */
static bool find_symbol(struct places *p, const struct process *process,
                        const struct symbolizer_where *where, uint64_t address,
                        struct symbol *symbol)
{
    if (address >= ADDRESS_SHARED) {
        return kernel_names_find(p->kernel, where->kernel, where->time,
                                 address, symbol);
    }
    return address_space_symbol(process->space, address, symbol) &&
           (symbol->end != UINT64_MAX ||
            address - symbol->start <= LAST_SYMBOL);
}

static bool place_by_symbol(struct places *p, const struct process *process,
                            const struct symbolizer_where *where,
                            const struct mapping *m, uint64_t address,
                            struct place *place)
{
    bool shared = address >= ADDRESS_SHARED;
    bool found;
    struct symbol symbol;
    const char *path;

    found = find_symbol(p, process, where, address, &symbol);
    if (!found && !m && !shared && kernel_names_may_have(address)) {
        found = shared = kernel_names_find(p->kernel, where->kernel,
                                           where->time, address, &symbol);
    }
    if (!found || (m && symbol.start < m->start)) {
        return false;
    }
    path = symbol.module ? symbol.module : m && *m->path ? m->path :
           shared ? NAME_KERNEL : NAME_UNKNOWN;
    set_place(p, place, address, &(struct found) {
        .where = where, .module = get_module(p, path, NULL, NULL, shared),
        .start = symbol.start, .end = symbol.end, .name = symbol.name,
    });
    return true;
}

static bool place_in_vmlinux(struct places *p,
                             const struct symbolizer_where *where,
                             uint64_t address, struct place *place)
{
    struct found found = { .where = where };
    struct elf_file *vmlinux = address < ADDRESS_SHARED ? NULL :
        kernel_names_vmlinux(p->kernel, where->kernel, where->time,
                             &found.bias);
    const struct elf_symbol *symbol = vmlinux ?
        elf_file_symbol(vmlinux, address - found.bias) : NULL;
    struct symbol alias;

    if (!symbol) {
        return false;
    }
    found.module = get_module(p, NAME_KERNEL, vmlinux, NULL, true);
    found.start = symbol->start;
    found.end = symbol->end;
    found.name = symbol->name;
    /* Of several with one address, the kernel prints this one. */
    if (kernel_names_find(p->kernel, where->kernel, where->time,
                          symbol->start + found.bias, &alias) &&
        alias.start == symbol->start + found.bias && !alias.module) {
        found.name = alias.name;
    }
    set_place(p, place, address - found.bias, &found);
    return true;
}

/* The mapping of code at an address in a version of a process, or NULL */
static struct mapping *find_coming(struct places *p,
                                   const struct process *process,
                                   const struct symbolizer_where *where,
                                   uint64_t address)
{
    const struct btrail_mapping *coming = NULL;
    struct mapping *m;

    if (process->seen) {
        btrail_names_mapping(p->names, process->seen, where->time, address,
                             &coming);
    }
    if (!coming || !(coming->flags & BTRAIL_MAPPING_EXEC)) {
        return NULL;
    }
    m = g_hash_table_lookup(p->coming, coming);
    if (!m) {
        m = g_new(struct mapping, 1);
        *m = processes_mapping(p->processes, process->seen, coming);
        g_hash_table_insert(p->coming, (gpointer)coming, m);
    }
    return m;
}

static bool is_named_code(const struct mapping *m)
{
    return m && m->code && *m->path;
}

/* Can what a snapshot finds later be at an address, where @m is now? */
static bool may_come(const struct process *process, const struct mapping *m)
{
    return process->late || !is_named_code(m);
}

/*
 * The mapping of code at an address of a process.  A process can use a mapping
 * before a snapshot finds it, or without any that does; and what a snapshot
 * finds may be about to change, as while a program is loaded.
 */
static struct mapping *find_mapping(struct places *p,
                                    const struct process *process,
                                    const struct symbolizer_where *where,
                                    uint64_t address)
{
    struct mapping *m = address_space_find(process->space, address);
    struct mapping *other = may_come(process, m) ?
                            find_coming(p, process, where, address) : NULL;

    m = other ? other : m;
    if (is_named_code(m) || !p->contents) {
        return m;
    }
    other = content_mappings_find(p->contents, process, address);
    return other ? other : m;
}

static void find_place(struct places *p, const struct process *process,
                       const struct symbolizer_where *where, uint64_t address,
                       struct place *place)
{
    bool shared = address >= ADDRESS_SHARED;
    struct mapping *m = shared ? address_space_find(p->shared, address) :
                        find_mapping(p, process, where, address);
    const char *pseudo = btrail_pseudo_name(address);
    struct module *none = get_module(p, shared && !process->foreign ?
                                     NAME_KERNEL : NAME_UNKNOWN, NULL, NULL,
                                     shared);

    if (pseudo) {
        set_place(p, place, address, &(struct found) {
            .where = where, .module = none, .start = address,
            .end = address + 1, .name = pseudo,
        });
    } else if (place_in_vmlinux(p, where, address, place) ||
               place_by_symbol(p, process, where, m, address, place)) {
        return;
    } else if (m) {
        place_in_mapping(p, process, where, m, address, place);
    } else {
        set_unknown(p, place, none, address);
    }
}

void places_find(struct places *p, const struct process *process,
                 const struct symbolizer_where *where, uint64_t address,
                 struct place *place)
{
    size_t hash = btrail_hash2(address, (uintptr_t)process->owner) >> 32;
    struct found_place *c = &p->cache[hash % CACHE_SIZE];
    uint32_t era = !kernel_names_may_have(address) ? 0 :
                   kernel_names_era(p->kernel, where->kernel, where->time,
                                    NULL);

    process = process->owner;
    if (c->address != address || c->process != process ||
        c->changes != process->changes || c->era != era ||
        (c->timed && c->coming != find_coming(p, process, where, address))) {
        find_place(p, process, where, address, &c->place);
        c->address = address;
        c->process = process;
        c->changes = process->changes;
        c->era = era;
        c->timed = address < ADDRESS_SHARED &&
                   may_come(process, address_space_find(process->space,
                                                        address));
        c->coming = c->timed ? find_coming(p, process, where, address) : NULL;
    }
    *place = c->place;
}

void function_offer(const struct function *f, struct closest *c)
{
    closest_offer(c, f->brief && !strchr(c->word, '(') ? f->brief : f->name);
}

void places_unknown(struct places *p, uint64_t address, struct place *place)
{
    set_unknown(p, place, get_module(p, NAME_KERNEL, NULL, NULL, true),
                address);
}

static void call_file(struct places *p, const struct process *process,
                      struct mapping *m, places_file_fn *fn, void *opaque)
{
    uint64_t address;

    find_file(p, m, process->bits);
    if (m->elf && elf_file_address(m->elf, m->offset, &address)) {
        fn(opaque, m, m->start - address);
    }
}

void places_files(struct places *p, const struct process *process,
                  const struct symbolizer_where *where, uint64_t address,
                  places_file_fn *fn, void *opaque)
{
    const struct process *owner = process->owner;
    struct mapping *here = address < ADDRESS_SHARED ?
        find_mapping(p, owner, where, address) : NULL;
    size_t n;
    struct mapping *m = address_space_mappings(owner->space, &n);

    for (size_t i = 0; i < n; i++) {
        if (is_named_code(&m[i]) && (!here || m[i].start != here->start)) {
            call_file(p, owner, &m[i], fn, opaque);
        }
    }
    if (is_named_code(here)) {
        call_file(p, owner, here, fn, opaque);
    }
}

/* The same of one file, whose addresses are @bias lower */
static void add_starts(struct elf_file *elf, uint64_t bias, const char *name,
                       GArray *addresses)
{
    size_t n;
    const struct elf_symbol *all = elf_file_symbols(elf, &n);
    const GArray *found = elf_file_find_all(elf, name);

    for (unsigned i = 0; i < found->len; i++) {
        uint64_t address = all[g_array_index(found, unsigned, i)].start + bias;

        g_array_append_val(addresses, address);
    }
}

void places_starts_in(struct places *p, const struct btrail_process *version,
                      const char *name, GArray *addresses)
{
    for (uint32_t i = 0; i < version->n_mappings; i++) {
        struct mapping m = processes_mapping(p->processes, version,
                                             &version->mappings[i]);
        uint64_t address;

        if (is_named_code(&m)) {
            find_file(p, &m, processes_bits(version));
        }
        if (m.elf && elf_file_address(m.elf, m.offset, &address)) {
            add_starts(m.elf, m.start - address, name, addresses);
        }
    }
}

void places_elfs_in(struct places *p, const struct btrail_process *version,
                    places_elf_fn *fn, void *opaque)
{
    for (uint32_t i = 0; i < version->n_mappings; i++) {
        struct mapping m = processes_mapping(p->processes, version,
                                             &version->mappings[i]);

        /* What is in brackets is no file. */
        if (is_named_code(&m) && *m.path == '/') {
            find_file(p, &m, processes_bits(version));
            fn(opaque, m.elf);
        }
    }
}

/*
 * The file that is mapped at an address, which becomes one in the file; @n: at
 * most this many bytes, as far as the mapping goes.  NULL if there is none.
 */
static struct elf_file *file_at(struct places *p,
                                const struct process *process,
                                const struct symbolizer_where *where,
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
    places_find(p, process, where, *address, &place);
    return m->elf && elf_file_address(m->elf, in_file, address) ? m->elf :
           NULL;
}

size_t places_read(struct places *p, const struct process *process,
                   const struct symbolizer_where *where, uint64_t address,
                   void *buf, size_t n)
{
    bool shared = address >= ADDRESS_SHARED;
    uint64_t bias;
    struct elf_file *f = !shared ? NULL :
        kernel_names_vmlinux(p->kernel, where->kernel, where->time, &bias);
    size_t got = f ? elf_file_read(f, address - bias, buf, n) : 0;

    if (got) {
        return got;
    }
    f = file_at(p, process, where,
                shared ? address_space_find(p->shared, address) :
                find_mapping(p, process->owner, where, address), &address, &n);
    return f ? elf_file_read(f, address, buf, n) : 0;
}

size_t places_read_constant(struct places *p, const struct process *process,
                            const struct symbolizer_where *where,
                            uint64_t address, void *buf, size_t n)
{
    struct elf_file *f = address >= ADDRESS_SHARED ? NULL :
        file_at(p, process, where,
                find_mapping(p, process->owner, where, address), &address, &n);

    return f ? elf_file_read_constant(f, address, buf, n) : 0;
}
