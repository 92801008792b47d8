/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From addresses to names: see symbolizer.h
 */

#include <elf.h>
#include <errno.h>
#include <gio/gio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backtrail/code.h"
#include "map-file.h"
#include "symbolizer.h"

/* Behind the last symbol of all nothing is called by its name so far away. */
#define LAST_SYMBOL     (1u << 20)

/* A file may have any number of address spaces; later ones share a name. */
#define MAX_PROCESSES   65536

#define VDSO            "[vdso]"
#define VDSO32          "[vdso32]"

/* Places that were asked for before */
#define CACHE_SIZE      (1u << 15)

struct cached {
    const struct process *process;
    uint64_t address;
    struct place place;
};

/* What makes a process of the sideband the same one */
struct life {
    uint64_t pgd;
    uint64_t user_pgd;
    uint64_t mm;
    uint64_t start_time;
    uint32_t pid;
    struct process *process;
};

struct symbolizer {
    struct map_file *map;
    struct elf_files *files;
    struct elf_file *vmlinux;
    uint64_t vmlinux_bias;      /* of addresses in the guest to its own */
    struct address_space *none;
    struct address_space *shared;
    struct address_space *own_shared;   /* if there is no map */
    bool has_sideband;
    struct btrail_names *names;
    struct btrail_owners *owners;
    struct btrail_code *code;
    GHashTable *lives;          /* of struct life */
    uint64_t last_root;
    GHashTable *processes;      /* CR3 -> struct process */
    GHashTable *modules;        /* path -> struct module */
    struct process *others;
    GStringChunk *strings;
    struct cached *cache;
    const struct process *last;
    unsigned n_processes;
    unsigned n_modules;
    unsigned n_functions;
};

static void free_module(gpointer p)
{
    struct module *module = p;

    g_hash_table_unref(module->functions);
    g_free(module);
}

/* The kernel may be elsewhere than its file says: by a symbol that both have */
static void find_bias(struct symbolizer *s)
{
    static const char *const names[] = { "_text", "_stext", "startup_64" };
    uint64_t address;
    unsigned i;

    for (i = 0; s->vmlinux && i < G_N_ELEMENTS(names); i++) {
        const struct elf_symbol *symbol = elf_file_find(s->vmlinux, names[i]);

        if (symbol &&
            address_space_symbol_find(s->shared, names[i], &address)) {
            s->vmlinux_bias = address - symbol->start;
            return;
        }
    }
}

static guint life_hash(gconstpointer p)
{
    const struct life *l = p;

    return (l->pgd ^ l->start_time * 31 ^ l->pid) * 0x9e3779b97f4a7c15ull >>
           32;
}

static gboolean life_equal(gconstpointer a, gconstpointer b)
{
    const struct life *x = a, *y = b;

    return x->pgd == y->pgd && x->user_pgd == y->user_pgd &&
           x->mm == y->mm && x->start_time == y->start_time &&
           x->pid == y->pid;
}

static void free_life(gpointer p)
{
    struct life *l = p;

    address_space_free(l->process->space);
    g_free(l->process);
    g_free(l);
}

static void add_image(struct symbolizer *s, const void *data, size_t size)
{
    const uint8_t *bytes = data;

    /* There is one for programs of each kind. */
    elf_files_add_image(s->files, size > EI_CLASS &&
                        bytes[EI_CLASS] == ELFCLASS32 ? VDSO32 : VDSO, data,
                        size);
}

static void add_symbols(struct symbolizer *s)
{
    struct btrail_symbol symbol;
    size_t i;

    for (i = 0; !btrail_names_symbol(s->names, i, &symbol); i++) {
        g_autofree char *module = symbol.module ?
                                  g_strdup_printf("[%s]", symbol.module) :
                                  NULL;

        if (g_utf8_validate(symbol.name, -1, NULL)) {
            address_space_kallsyms(s->shared, symbol.address, symbol.type,
                                   symbol.name, module);
        }
    }
}

/* What is damaged is left out. */
static void read_sideband(struct symbolizer *s,
                          const struct btrail_trace *trace)
{
    struct btrail_sideband_info info;
    void *data;
    unsigned i;
    int ret;

    for (i = 0; (ret = btrail_trace_sideband(trace, i, &info, NULL)) !=
         -BTRAIL_ERR_END; i++) {
        if (ret) {
            continue;
        }
        s->has_sideband |= info.kind == BTRAIL_SIDEBAND_SYMBOLS ||
                           info.kind == BTRAIL_SIDEBAND_PROCESSES;
        if (info.kind == BTRAIL_SIDEBAND_IMAGE &&
            !btrail_trace_sideband(trace, i, &info, &data)) {
            add_image(s, data, info.size);
            free(data);
        }
    }
    if (btrail_names_open(&s->names, trace)) {
        s->names = NULL;
    } else {
        add_symbols(s);
        if (btrail_owners_open(&s->owners, trace, s->names)) {
            s->owners = NULL;
        }
    }
    if (btrail_code_open(&s->code, trace)) {
        s->code = NULL;
    }
}

struct symbolizer *symbolizer_new(const struct symbolizer_options *options,
                                  const struct btrail_trace *trace,
                                  GError **error)
{
    struct symbolizer *s = g_new0(struct symbolizer, 1);

    s->strings = g_string_chunk_new(4096);
    s->files = elf_files_new(&options->files);
    s->none = address_space_new();
    s->processes = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL,
                                         g_free);
    s->lives = g_hash_table_new_full(life_hash, life_equal, NULL, free_life);
    s->modules = g_hash_table_new_full(g_str_hash, g_str_equal, NULL,
                                       free_module);
    s->cache = g_new0(struct cached, CACHE_SIZE);
    s->shared = s->own_shared = address_space_new();
    if (options->map) {
        s->map = map_file_read(options->map, error);
        if (!s->map) {
            symbolizer_free(s);
            return NULL;
        }
        s->shared = map_file_shared(s->map);
    }
    if (trace) {
        read_sideband(s, trace);
    }
    if (options->vmlinux) {
        s->vmlinux = elf_files_host(s->files, options->vmlinux);
        if (!s->vmlinux) {
            g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED,
                        "%s: %s", options->vmlinux, errno == ENOEXEC ?
                        "this is no ELF file for x86; of a compressed kernel "
                        "(vmlinuz) use the vmlinux" : g_strerror(errno));
            symbolizer_free(s);
            return NULL;
        }
        find_bias(s);
    }
    return s;
}

void symbolizer_free(struct symbolizer *s)
{
    if (!s) {
        return;
    }
    btrail_owners_close(s->owners);
    btrail_names_close(s->names);
    btrail_code_close(s->code);
    g_hash_table_unref(s->lives);
    g_hash_table_unref(s->processes);
    g_hash_table_unref(s->modules);
    g_free(s->others);
    g_free(s->cache);
    address_space_free(s->none);
    address_space_free(s->own_shared);
    map_file_free(s->map);
    elf_files_free(s->files);
    g_string_chunk_free(s->strings);
    g_free(s);
}

bool symbolizer_has_names(const struct symbolizer *s)
{
    return s->map || s->vmlinux || s->has_sideband;
}

/*
 * Processes
 */

static struct process *new_process(struct symbolizer *s, uint64_t root)
{
    struct process *p = g_new0(struct process, 1);

    p->cr3 = root;
    p->pid = p->tid = -1;
    p->id = s->n_processes++;
    p->bits = 64;
    p->space = s->none;
    return p;
}

static struct process *unnamed(struct symbolizer *s, uint64_t root)
{
    struct process *p = new_process(s, root);
    g_autofree char *name = g_strdup_printf("cr3:0x%" G_GINT64_MODIFIER "x",
                                            root);

    p->comm = g_string_chunk_insert_const(s->strings, name);
    return p;
}

static const struct process *add_process(struct symbolizer *s, uint64_t root)
{
    struct map_process *named = s->map ? map_file_process(s->map, root) :
                                NULL;
    struct process *p;

    if (s->n_processes >= MAX_PROCESSES) {
        if (!s->others) {
            /* No page tables are there. */
            s->others = new_process(s, UINT64_MAX);
            s->others->comm = "[others]";
        }
        return s->others;
    }
    p = unnamed(s, root);
    if (named) {
        p->known = named->name;
        p->comm = named->name ? named->name : p->comm;
        p->pid = named->pid;
        p->space = named->space;
    }
    g_hash_table_insert(s->processes, &p->cr3, p);
    return p;
}

/* Have in @p's space what was seen of it, too. */
static void add_mappings(struct symbolizer *s, struct process *p,
                         const struct btrail_process *seen)
{
    uint64_t end = 0;
    bool changed = false;
    uint32_t i, k;

    for (i = 0; i < seen->n_mappings; i++) {
        const struct btrail_mapping *m = &seen->mappings[i];
        const struct mapping *old = address_space_find(p->space, m->start);
        char id[2 * BTRAIL_BUILD_ID_MAX + 1] = "";
        struct mapping added = {
            .start = m->start, .end = m->end, .offset = m->offset,
            .path = m->path,
        };

        end = m->end;
        if (old && old->start == m->start && old->end == m->end &&
            old->offset == m->offset && !strcmp(old->path, m->path)) {
            continue;
        }
        for (k = 0; k < MIN(m->build_id_size, BTRAIL_BUILD_ID_MAX); k++) {
            sprintf(id + 2 * k, "%02x", m->build_id[k]);
        }
        added.build_id = k ? id : NULL;
        address_space_map(p->space, &added);
        changed = true;
    }
    if (changed) {
        memset(s->cache, 0, CACHE_SIZE * sizeof(*s->cache));
    }
    /* A program of 64 bits has its stack above. */
    p->bits = end && end <= UINT64_C(1) << 32 ? 32 : 64;
}

/*
 * A CR3 does not tell which of several threads ran.  Those that come and go
 * between two looks are not found, so that one alone is no more than likely.
 */
static void find_threads(struct process *p, const struct btrail_process *seen)
{
    for (seen = btrail_names_last(seen); seen;
         seen = btrail_names_before(seen)) {
        if (!seen->n_threads) {
            /* It was only seen to be there. */
            continue;
        }
        if (seen->n_threads > 1 ||
            (p->threads && p->tid != (int64_t)seen->threads[0].tid)) {
            p->threads = MAX(seen->n_threads, 2);
            p->tid = -1;
            return;
        }
        p->threads = 1;
        p->tid = seen->threads[0].tid;
    }
}

/* The process that was seen in the guest's memory */
static struct process *process_seen(struct symbolizer *s,
                                    const struct btrail_process *seen)
{
    const struct life key = {
        seen->pgd, seen->user_pgd, seen->mm, seen->start_time, seen->pid,
    };
    struct life *l = g_hash_table_lookup(s->lives, &key);
    struct process *p;

    if (!l) {
        if (s->n_processes >= MAX_PROCESSES) {
            return NULL;
        }
        l = g_new(struct life, 1);
        *l = key;
        p = l->process = new_process(s, seen->pgd & BTRAIL_CR3_ROOT);
        p->space = address_space_new();
        p->pid = seen->pid;
        find_threads(p, seen);
        p->known = true;
        p->comm = g_string_chunk_insert_const(s->strings,
                                              btrail_names_last(seen)->comm);
        g_hash_table_add(s->lives, l);
    }
    p = l->process;
    if (p->seen != seen) {
        p->seen = seen;
        add_mappings(s, p, seen);
    }
    return p;
}

const struct process *symbolizer_process(struct symbolizer *s,
                                         const struct symbolizer_where *where,
                                         uint64_t time)
{
    const struct btrail_process *seen;
    gint64 root = where->cr3 & BTRAIL_CR3_ROOT;

    if (s->last && s->last_root == (uint64_t)root && !s->owners) {
        return s->last;
    }
    s->last_root = root;
    s->last = NULL;
    if (s->owners && !(s->map && map_file_process(s->map, root)) &&
        btrail_owners_process(s->owners, where->vcpu, where->index, time,
                              where->cr3, &seen) != BTRAIL_UNKNOWN) {
        s->last = process_seen(s, seen);
    }
    if (!s->last) {
        s->last = g_hash_table_lookup(s->processes, &root);
    }
    if (!s->last) {
        s->last = add_process(s, root);
    }
    return s->last;
}

/*
 * Places
 */

static struct module *get_module(struct symbolizer *s, const char *path,
                                 bool kernel)
{
    struct module *module = g_hash_table_lookup(s->modules, path);
    const char *slash;

    if (!module) {
        module = g_new0(struct module, 1);
        module->path = g_string_chunk_insert_const(s->strings, path);
        slash = strrchr(module->path, '/');
        module->name = slash && slash[1] ? slash + 1 : module->path;
        module->kernel = kernel;
        module->bits = 64;
        module->id = s->n_modules++;
        module->functions = g_hash_table_new_full(g_int64_hash,
                                                  g_int64_equal, NULL,
                                                  g_free);
        g_hash_table_insert(s->modules, (char *)module->path, module);
    }
    return module;
}

static const struct function *get_function(struct symbolizer *s,
                                           struct module *module,
                                           uint64_t start, const char *name)
{
    /* No function begins with the last byte of memory. */
    gint64 key = name ? start : UINT64_MAX;
    struct function *f = g_hash_table_lookup(module->functions, &key);

    if (!f) {
        f = g_new0(struct function, 1);
        f->start = key;
        f->module = module;
        f->known = name;
        f->name = g_string_chunk_insert_const(s->strings,
                                              name ? name : NAME_UNKNOWN);
        f->id = s->n_functions++;
        g_hash_table_insert(module->functions, &f->start, f);
    }
    return f;
}

static void set_place(struct symbolizer *s, struct place *place,
                      struct module *module, uint64_t address,
                      uint64_t start, const char *name)
{
    place->function = get_function(s, module, start, name);
    place->address = address;
    place->offset = name ? address - start : address;
}

/* A mapping of a file, or of something else */
static void place_in_mapping(struct symbolizer *s,
                             const struct process *process,
                             struct mapping *m, uint64_t address,
                             struct place *place)
{
    const char *path = process->bits == 32 && !strcmp(m->path, VDSO) ?
                       VDSO32 : m->path;
    const struct elf_symbol *symbol;
    struct module *module;
    uint64_t in_file = address - m->start + m->offset;

    if (!m->looked) {
        m->looked = true;
        m->elf = elf_files_get(s->files, path, m->build_id);
    }
    module = get_module(s, *path ? path : NAME_UNKNOWN,
                        m->start >= ADDRESS_SHARED);
    if (!m->elf || !elf_file_address(m->elf, in_file, &address)) {
        set_place(s, place, module, in_file, 0, NULL);
        return;
    }
    if (!module->elf) {
        module->elf = m->elf;
        module->bits = elf_file_bits(m->elf);
    }
    symbol = elf_file_symbol(m->elf, address);
    set_place(s, place, module, address, symbol ? symbol->start : 0,
              symbol ? symbol->name : NULL);
}

static bool place_by_symbol(struct symbolizer *s, struct address_space *as,
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
    set_place(s, place, get_module(s, path, address >= ADDRESS_SHARED),
              address, symbol->start, symbol->name);
    return true;
}

static bool place_in_vmlinux(struct symbolizer *s, uint64_t address,
                             struct place *place)
{
    const struct elf_symbol *symbol;
    struct module *module;

    if (!s->vmlinux || address < ADDRESS_SHARED) {
        return false;
    }
    address -= s->vmlinux_bias;
    symbol = elf_file_symbol(s->vmlinux, address);
    if (!symbol) {
        return false;
    }
    module = get_module(s, NAME_KERNEL, true);
    module->elf = s->vmlinux;
    set_place(s, place, module, address, symbol->start, symbol->name);
    return true;
}

static void find_place(struct symbolizer *s, const struct process *process,
                       uint64_t address, struct place *place)
{
    bool shared = address >= ADDRESS_SHARED;
    struct address_space *as = shared ? s->shared : process->space;
    struct mapping *m = address_space_find(as, address);

    if (place_in_vmlinux(s, address, place) ||
        place_by_symbol(s, as, m, address, place)) {
        return;
    }
    if (m) {
        place_in_mapping(s, process, m, address, place);
    } else {
        set_place(s, place, get_module(s, shared ? NAME_KERNEL :
                                       NAME_UNKNOWN, shared),
                  address, 0, NULL);
    }
}

void symbolizer_place(struct symbolizer *s, const struct process *process,
                      uint64_t address, struct place *place)
{
    size_t hash = (address ^ (uintptr_t)process) * 0x9e3779b97f4a7c15ull >>
                  32;
    struct cached *c = &s->cache[hash % CACHE_SIZE];

    if (c->address != address || c->process != process) {
        find_place(s, process, address, &c->place);
        c->address = address;
        c->process = process;
    }
    *place = c->place;
}

bool symbolizer_line(struct symbolizer *s, const struct place *place,
                     const char **file, unsigned *line)
{
    const struct module *module = place->function->module;

    return module->elf &&
           elf_file_line(module->elf, place->address, file, line);
}

/*
 * Code
 */

size_t symbolizer_code(struct symbolizer *s, const struct process *process,
                       const struct symbolizer_where *where,
                       uint64_t address, void *buf, size_t n,
                       bool *exact)
{
    bool shared = address >= ADDRESS_SHARED;
    struct mapping *m;
    int ret;

    ret = s->code ? btrail_code_read(s->code, where->vcpu, where->index,
                                     where->cr3, address, buf, n) : 0;
    *exact = true;
    if (ret > 0) {
        return ret;
    }
    *exact = !shared;

    if (shared && s->vmlinux) {
        size_t got = elf_file_read(s->vmlinux, address - s->vmlinux_bias,
                                   buf, n);
        if (got) {
            return got;
        }
    }
    m = address_space_find(shared ? s->shared : process->space, address);
    if (m) {
        struct place place;
        uint64_t in_file = address - m->start + m->offset;

        /* This looks for the file. */
        symbolizer_place(s, process, address, &place);
        if (m->elf && elf_file_address(m->elf, in_file, &address)) {
            return elf_file_read(m->elf, address, buf,
                                 MIN(n, m->end - m->start - (in_file -
                                                             m->offset)));
        }
    }
    return 0;
}

unsigned symbolizer_bits(struct symbolizer *s, const struct process *process,
                         uint64_t address)
{
    struct place place;

    if (address >= (UINT64_C(1) << 32)) {
        return 64;
    }
    symbolizer_place(s, process, address, &place);
    return place.function->module->elf ? place.function->module->bits :
           process->bits;
}
