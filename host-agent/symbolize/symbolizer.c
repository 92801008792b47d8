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
#include "symbolize/map-file.h"
#include "lib/internal/names.h"
#include "symbolize/runs.h"
#include "symbolize/symbolizer.h"
#include "util/hash.h"

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

/* Threads of a process that came and went while the trace was made */
struct threads {
    struct run_event birth;     /* the last of them */
    unsigned births;
    bool made;                  /* it may have made that thread itself */
    uint64_t exit;              /* time of the first */
};

struct symbolizer {
    const struct btrail_trace *trace;
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
    bool has_runs;              /* they were looked for */
    struct runs *runs;
    GHashTable *threads;        /* as a process was seen last -> its threads */
    GHashTable *births;         /* CR3s where somebody's threads were born */
    GPtrArray *borrowers;       /* of struct process */
    const struct process *who[2];
    GHashTable *seen;           /* btrail_names_last() -> struct process */
    uint64_t last_root;
    uint64_t time;              /* of the last question who ran */
    GHashTable *processes;      /* CR3 -> struct process */
    GHashTable *modules;        /* path -> struct module */
    struct process *others;
    GStringChunk *strings;
    struct cached *cache;
    const struct process *last;
    enum btrail_certainty last_certainty;
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

static void free_seen(gpointer p)
{
    struct process *process = p;

    address_space_free(process->space);
    g_free(process);
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

    s->trace = trace;
    s->strings = g_string_chunk_new(4096);
    s->files = elf_files_new(&options->files);
    s->none = address_space_new();
    s->processes = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL,
                                         g_free);
    s->seen = g_hash_table_new_full(NULL, NULL, NULL, free_seen);
    s->modules = g_hash_table_new_full(g_str_hash, g_str_equal, NULL,
                                       free_module);
    s->borrowers = g_ptr_array_new_with_free_func(g_free);
    s->births = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free,
                                      NULL);
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
    runs_free(s->runs);
    g_clear_pointer(&s->threads, g_hash_table_unref);
    g_hash_table_unref(s->births);
    g_ptr_array_unref(s->borrowers);
    btrail_owners_close(s->owners);
    btrail_names_close(s->names);
    btrail_code_close(s->code);
    g_hash_table_unref(s->seen);
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
    p->who = p;
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

/* Have a mapping in a space.  False if it is there. */
static bool add_mapping(struct address_space *space,
                        const struct btrail_mapping *m)
{
    const struct mapping *old = address_space_find(space, m->start);
    char id[2 * BTRAIL_BUILD_ID_MAX + 1] = "";
    struct mapping added = {
        .start = m->start, .end = m->end, .offset = m->offset,
        .path = m->path, .code = m->flags & BTRAIL_MAPPING_EXEC,
    };
    uint32_t i;

    if (old && old->start == m->start && old->end == m->end &&
        old->offset == m->offset && old->code == added.code &&
        !strcmp(old->path, m->path)) {
        return false;
    }
    for (i = 0; i < MIN(m->build_id_size, BTRAIL_BUILD_ID_MAX); i++) {
        sprintf(id + 2 * i, "%02x", m->build_id[i]);
    }
    added.build_id = i ? id : NULL;
    address_space_map(space, &added);
    return true;
}

/* Have in @p's space what was seen of it, too. */
static void add_mappings(struct symbolizer *s, struct process *p,
                         const struct btrail_process *seen)
{
    uint64_t end = 0;
    bool changed = false;
    uint32_t i;

    for (i = 0; i < seen->n_mappings; i++) {
        end = seen->mappings[i].end;
        changed |= add_mapping(p->space, &seen->mappings[i]);
    }
    if (changed) {
        memset(s->cache, 0, CACHE_SIZE * sizeof(*s->cache));
    }
    /* A program of 64 bits has its stack above. */
    p->bits = end && end <= UINT64_C(1) << 32 ? 32 : 64;
}

/* Had it but the threads that were seen? */
static bool sure_of_threads(struct symbolizer *s, const struct process *p,
                            uint64_t first)
{
    gint64 root = p->cr3;
    const struct threads *t;

    if (!s->threads || g_hash_table_contains(s->births, &root)) {
        return false;
    }
    t = g_hash_table_lookup(s->threads, btrail_names_last(p->seen));
    /* One birth is its own, unless it was of a thread that it has made. */
    return !t || (t->exit > first &&
                  (!t->births || (t->births == 1 && !t->made)));
}

/* A CR3 does not tell which of several threads ran. */
static void find_thread(struct symbolizer *s, struct process *p)
{
    const struct btrail_process *seen;
    int64_t tid = -1;
    uint64_t first = UINT64_MAX;

    p->tid = -1;
    for (seen = btrail_names_last(p->seen); seen;
         seen = btrail_names_before(seen)) {
        first = MIN(first, seen->first);
        if (!seen->n_threads) {
            /* It was only seen to be there. */
            continue;
        }
        if (seen->n_threads > 1 ||
            (tid >= 0 && tid != (int64_t)seen->threads[0].tid)) {
            return;
        }
        tid = seen->threads[0].tid;
    }
    if (sure_of_threads(s, p, first)) {
        p->tid = tid;
    }
}

/* The process that was seen in the guest's memory */
static struct process *process_seen(struct symbolizer *s,
                                    const struct btrail_process *seen)
{
    const struct btrail_process *last = btrail_names_last(seen);
    struct process *p = g_hash_table_lookup(s->seen, last);

    if (!p) {
        if (s->n_processes >= MAX_PROCESSES) {
            return NULL;
        }
        p = new_process(s, seen->pgd & BTRAIL_CR3_ROOT);
        p->space = address_space_new();
        p->pid = seen->pid;
        p->known = true;
        p->comm = g_string_chunk_insert_const(s->strings, last->comm);
        g_hash_table_insert(s->seen, (gpointer)last, p);
    }
    if (p->seen != seen) {
        bool first = !p->seen;

        p->seen = seen;
        add_mappings(s, p, seen);
        if (first) {
            find_thread(s, p);
        }
    }
    return p;
}

const struct process *symbolizer_process(struct symbolizer *s,
                                         const struct symbolizer_where *where,
                                         uint64_t time,
                                         enum btrail_certainty *certainty)
{
    const struct btrail_process *seen;
    gint64 root = where->cr3 & BTRAIL_CR3_ROOT;

    s->time = time;
    if (s->last && s->last_root == (uint64_t)root && !s->owners) {
        *certainty = s->last_certainty;
        return s->last;
    }
    s->last_root = root;
    s->last = NULL;
    s->last_certainty = BTRAIL_UNKNOWN;
    if (s->owners && !(s->map && map_file_process(s->map, root))) {
        s->last_certainty = btrail_owners_process(s->owners, where->vcpu,
                                                  where->index, time,
                                                  where->cr3, &seen);
        s->last = s->last_certainty != BTRAIL_UNKNOWN ?
                  process_seen(s, seen) : NULL;
    }
    if (!s->last) {
        s->last = g_hash_table_lookup(s->processes, &root);
        if (!s->last) {
            s->last = add_process(s, root);
        }
        /* A map is what a person says. */
        s->last_certainty = s->last->known ? BTRAIL_SURE : BTRAIL_UNKNOWN;
    }
    *certainty = s->last_certainty;
    return s->last;
}

/*
 * Tasks
 */

static uint64_t find_symbol(struct symbolizer *s, const char *name,
                            const char *other)
{
    uint64_t address;

    return address_space_symbol_find(s->shared, name, &address) ||
           (other && address_space_symbol_find(s->shared, other, &address)) ?
           address : 0;
}

static struct threads *get_threads(struct symbolizer *s,
                                   const struct run_event *e)
{
    const struct btrail_process *seen;
    struct threads *t;

    if (btrail_owners_process(s->owners, e->vcpu, e->index, e->time, e->cr3,
                              &seen) == BTRAIL_UNKNOWN) {
        return NULL;
    }
    seen = btrail_names_last(seen);
    t = g_hash_table_lookup(s->threads, seen);
    if (!t) {
        t = g_new0(struct threads, 1);
        t->exit = UINT64_MAX;
        g_hash_table_insert(s->threads, (gpointer)seen, t);
    }
    return t;
}

/* Did one certainly come before the other? */
static bool before(const struct symbolizer *s, const struct run_event *a,
                   const struct run_event *b)
{
    return a->vcpu == b->vcpu ? a->index < b->index :
           b->time > a->time &&
           b->time - a->time > btrail_names_tick(s->names);
}

static void find_threads(struct symbolizer *s)
{
    const struct run_event *events;
    size_t i, n;

    if (!runs_events(s->runs, &events, &n) ||
        !btrail_names_all_vcpus(s->names)) {
        return;
    }
    s->threads = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    for (i = 0; i < n; i++) {
        const struct run_event *e = &events[i];
        struct threads *t = get_threads(s, e);
        uint64_t root = btrail_names_root(s->names, e->cr3);

        if (!t && e->kind == RUN_BIRTH) {
            g_hash_table_add(s->births, g_memdup2(&root, sizeof(root)));
        } else if (t && e->kind == RUN_BIRTH) {
            t->births++;
            t->birth = *e;
        } else if (t && e->kind == RUN_EXIT) {
            t->exit = MIN(t->exit, e->time);
        }
    }
    for (i = 0; i < n; i++) {
        struct threads *t = events[i].kind == RUN_CLONE ?
                            get_threads(s, &events[i]) : NULL;

        if (t && t->births) {
            t->made |= !before(s, &t->birth, &events[i]);
        }
    }
}

/* Go through the trace for runs, if that makes sense. */
static void find_runs(struct symbolizer *s)
{
    static const char *const idle[] = { "do_idle", "schedule_idle" };
    struct runs_symbols symbols = { 0 };
    GHashTableIter iter;
    gpointer process;
    unsigned i;

    s->has_runs = true;
    if (!s->owners || !btrail_names_unfiltered(s->names)) {
        return;
    }
    symbols.switch_to = find_symbol(s, "__switch_to_asm", NULL);
    symbols.lazy = find_symbol(s, "enter_lazy_tlb", NULL);
    symbols.switch_mm = find_symbol(s, "switch_mm_irqs_off", NULL);
    if (!symbols.switch_to || !symbols.lazy || !symbols.switch_mm) {
        return;
    }
    for (i = 0; i < G_N_ELEMENTS(idle); i++) {
        uint64_t start = find_symbol(s, idle[i], NULL);
        const struct symbol *symbol = address_space_symbol(s->shared, start);

        if (start && symbol) {
            symbols.idle[i].start = start;
            symbols.idle[i].end = symbol->end;
        }
    }
    symbols.birth = find_symbol(s, "ret_from_fork_asm", "ret_from_fork");
    symbols.clone = find_symbol(s, "kernel_clone", "_do_fork");
    symbols.exit = find_symbol(s, "do_exit", NULL);
    s->runs = runs_new(s->trace, &symbols, btrail_parallel_threads());
    if (!s->runs || !symbols.birth || !symbols.clone || !symbols.exit) {
        return;
    }
    find_threads(s);
    g_hash_table_iter_init(&iter, s->seen);
    while (g_hash_table_iter_next(&iter, NULL, &process)) {
        find_thread(s, process);
    }
}

/* A task of the kernel that has borrowed the address space of a process */
static const struct process *borrower(struct symbolizer *s,
                                      const struct process *owner, bool idle)
{
    struct process *lender = (struct process *)owner, *p;

    if (lender->borrowers[idle]) {
        return lender->borrowers[idle];
    }
    p = lender->borrowers[idle] = new_process(s, owner->cr3);
    p->space = owner->space;
    p->comm = idle ? NAME_IDLE : NAME_TASK;
    p->pid = p->tid = idle ? 0 : -1;
    p->known = true;
    p->who = s->who[idle] = s->who[idle] ? s->who[idle] : p;
    g_ptr_array_add(s->borrowers, p);
    return p;
}

/* Are these the page tables of the kernel alone? */
static bool is_kernel(const struct process *p)
{
    return p->seen && !p->pid;
}

/* Who ran, from a record on; @where is in a run. */
static void find_task(struct symbolizer *s,
                      const struct symbolizer_where *where, uint64_t time,
                      const struct run *run, struct task *task)
{
    task->process = symbolizer_process(s, where, time, &task->user);
    task->kernel = run->kind == RUN_USER ? task->user :
                   MIN(task->user, BTRAIL_LIKELY);
    if (run->kind == RUN_USER && is_kernel(task->process) && run->cr3) {
        /* It has given its page tables back, since it ends. */
        const struct symbolizer_where begin = {
            where->vcpu, run->first, run->cr3,
        };

        task->process = symbolizer_process(s, &begin, run->time, &task->user);
        task->kernel = task->user;
    }
    /* Those of the kernel alone are those of any of its tasks. */
    if (run->kind == RUN_KERNEL || run->kind == RUN_IDLE ||
        (run->kind == RUN_UNKNOWN && is_kernel(task->process))) {
        task->process = borrower(s, task->process, run->kind == RUN_IDLE);
        task->user = task->kernel = BTRAIL_SURE;
    }
}

bool symbolizer_part(struct symbolizer *s, unsigned vcpu,
                     const struct btrail_batch *b, struct btrail_batch *part,
                     struct task *task)
{
    uint64_t index = part->count ? part->index + part->count : b->index;
    uint64_t done = index - b->index;
    const struct symbolizer_where where = { vcpu, index, b->cr3 };
    struct run run = { .end = UINT64_MAX };

    if (done >= b->count) {
        return false;
    }
    if (!s->has_runs) {
        find_runs(s);
    }
    if (s->runs) {
        run = runs_find(s->runs, vcpu, index);
    }
    *part = *b;
    part->index = index;
    part->records += done;
    part->count = MIN(b->count - done, run.end - index);
    find_task(s, &where, b->time.host, &run, task);
    return true;
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

/*
 * What code is mapped at an address of a process?  A mapping can be used before
 * a snapshot sees it.
 */
static struct mapping *find_mapping(struct symbolizer *s,
                                    const struct process *process,
                                    uint64_t address)
{
    struct mapping *m = address_space_find(process->space, address);
    const struct btrail_mapping *coming;

    if ((m && m->code) || !process->seen) {
        return m;
    }
    btrail_names_mapping(s->names, process->seen, s->time, address, &coming);
    if (!coming || !(coming->flags & BTRAIL_MAPPING_EXEC)) {
        return m;
    }
    add_mapping(process->space, coming);
    return address_space_find(process->space, address);
}

static void find_place(struct symbolizer *s, const struct process *process,
                       uint64_t address, struct place *place)
{
    bool shared = address >= ADDRESS_SHARED;
    struct address_space *as = shared ? s->shared : process->space;
    struct mapping *m = shared ? address_space_find(as, address) :
                        find_mapping(s, process, address);
    const char *pseudo = btrail_pseudo_name(address);

    if (pseudo) {
        set_place(s, place, get_module(s, shared ? NAME_KERNEL :
                                       NAME_UNKNOWN, shared),
                  address, address, pseudo);
        return;
    }
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
    size_t hash = btrail_hash2(address, (uintptr_t)process) >> 32;
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
    m = shared ? address_space_find(s->shared, address) :
        find_mapping(s, process, address);
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
