/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is searched in the records of a trace: see target.h
 */

#include <string.h>

#include "find/target.h"
#include "lib/agent/batch.h"
#include "lib/agent/names-private.h"
#include "lib/agent/symbol-list.h"
#include "util/closest.h"
#include "util/demangle.h"
#include "util/hash.h"
#include "util/search.h"
#include "util/sort.h"

#define fail(error, ...) \
    agent_fail(error, AGENT_ERROR_COMMAND, __VA_ARGS__)

static struct find_target *wanted_new(void)
{
    struct find_target *s = g_new0(struct find_target, 1);

    s->addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    return s;
}

void find_target_free(struct find_target *s)
{
    if (s) {
        for (unsigned i = 0; i < BTRAIL_MAX_VCPUS; i++) {
            g_clear_pointer(&s->others[i], g_array_unref);
        }
        g_array_unref(s->addresses);
        g_clear_pointer(&s->starts, g_array_unref);
        btrail_names_close(s->own_names);
        marks_free(s->marks);
        mark_wanted_clear(&s->mark);
        g_free(s->process);
        g_free(s->function);
        g_free(s->missing);
        g_free(s);
    }
}

static gint by_address(gconstpointer p, gconstpointer q)
{
    const struct kernel_start *a = p, *b = q;

    return BTRAIL_COMPARE(a->address, b->address) ?:
           BTRAIL_COMPARE(b->always, a->always) ?:
           BTRAIL_COMPARE(a->kernel, b->kernel) ?:
           BTRAIL_COMPARE(a->from, b->from);
}

/* Adds addresses that are wanted at some times.  Takes the array. */
static void add_starts(struct find_target *s, GArray *starts)
{
    g_array_sort(starts, by_address);
    for (unsigned i = 0; i < starts->len; i++) {
        const struct kernel_start *start =
            &g_array_index(starts, struct kernel_start, i);

        if (!i || start->address != start[-1].address) {
            g_array_append_val(s->addresses, start->address);
        }
    }
    s->starts = starts;
}

bool find_target_at(const struct find_target *s, uint64_t address,
                    uint32_t kernel,
                    uint64_t time)
{
    const struct kernel_start *all = s->starts ? (void *)s->starts->data :
                                     NULL;
    unsigned n = s->starts ? s->starts->len : 0;
    size_t first = BTRAIL_UP_TO(all, n, struct kernel_start, address,
                                address - 1);
    size_t i;

    if (!kernel && s->names && first < n) {
        kernel = btrail_names_kernel(s->names, time);
    }
    for (i = first; i < n && all[i].address == address; i++) {
        if (all[i].always || ((!kernel || all[i].kernel == kernel) &&
                              time >= all[i].from && time <= all[i].last)) {
            return true;
        }
    }
    return i == first;
}

/*
 * A process of some page tables, and whether the function is known in what
 * snapshots found of it
 */
struct owner {
    uint64_t key[2];
    bool known;
};

/* The versions of processes that a task has been named after, by page tables
 * and pid */
static GHashTable *find_owners(struct symbolizer *symbols, GHashTable *pids,
                               const char *function, GArray *addresses)
{
    const struct btrail_names *names = symbolizer_names(symbols);
    GHashTable *owners = g_hash_table_new_full(btrail_pair_hash,
                                               btrail_pair_equal, g_free,
                                               NULL);
    const struct btrail_process *p;

    for (unsigned i = 0; names && (p = btrail_names_version(names, i)); i++) {
        struct owner key = { { btrail_cr3_root(p->pgd), p->pid } }, *owner;
        unsigned before = addresses->len;

        if (!g_hash_table_contains(pids, GUINT_TO_POINTER(p->pid))) {
            continue;
        }
        owner = g_hash_table_lookup(owners, &key);
        if (!owner) {
            owner = g_memdup2(&key, sizeof(key));
            g_hash_table_add(owners, owner);
        }
        symbolizer_starts_in(symbols, p, function, addresses);
        owner->known |= addresses->len > before;
    }
    return owners;
}

typedef void batch_fn(void *opaque, unsigned vcpu,
                      const struct btrail_batch *b);

/* Reads who made the records of a trace, which is quick. */
static bool read_batches(const struct btrail_trace *trace, batch_fn *fn,
                         void *opaque, GError **error)
{
    struct btrail_stream_info info;
    struct btrail_cursor *cursor;
    struct btrail_batch b;

    for (unsigned i = 0; !btrail_trace_stream(trace, i, &info); i++) {
        int ret = btrail_cursor_open(&cursor, trace, info.vcpu,
                                     BTRAIL_CURSOR_COUNTS_ONLY);

        while (!ret && !(ret = btrail_cursor_next(cursor, &b))) {
            if (!b.event) {
                fn(opaque, info.vcpu, &b);
            }
        }
        btrail_cursor_close(cursor);
        if (ret != -BTRAIL_ERR_END) {
            return fail(error, "the trace: %s", btrail_strerror(ret));
        }
    }
    return true;
}

/* A function of the programs of a process */
struct user_search {
    struct find_target *wanted;
    struct symbolizer *symbols;
    const struct btrail_names *names;
    GHashTable *pids;           /* that had the name of the process */
    GHashTable *owners;
    GHashTable *others;         /* names of other processes */
    struct closest closest;     /* of those */
    bool unnamed;               /* some tasks have no name */
};

static void note_pid(void *opaque, unsigned vcpu, const struct btrail_batch *b)
{
    struct user_search *u = opaque;

    if (!b->task.known) {
        u->unnamed = true;
        return;
    }
    if (!strcmp(b->task.name, u->wanted->process)) {
        g_hash_table_add(u->pids, GUINT_TO_POINTER(b->task.pid));
    } else if (!g_hash_table_contains(u->others, b->task.name)) {
        char *name = g_strdup(b->task.name);

        g_hash_table_add(u->others, name);
        closest_offer(&u->closest, name);
    }
}

static bool no_such_process(const struct user_search *u, GError **error)
{
    g_autofree char *hint = closest_hint(&u->closest);

    return agent_fail(error, AGENT_ERROR_NAMES, "no process %s is named in "
                      "this trace%s", u->wanted->process, hint);
}

/* Can these records, whose task is known, be of the process, at addresses that
 * are not known? */
static bool is_unknown(const struct user_search *u,
                       const struct btrail_batch *b)
{
    struct owner key = { { 0, b->task.pid } };
    const struct owner *owner;

    if (b->task.kernel || strcmp(b->task.name, u->wanted->process)) {
        return false;
    }
    key.key[0] = u->names ? btrail_names_root(u->names, false, b->cr3) : 0;
    owner = g_hash_table_lookup(u->owners, &key);
    return !owner || !owner->known;
}

static void add_other(struct user_search *u, unsigned vcpu,
                      const struct btrail_batch *b)
{
    GArray **others = &u->wanted->others[vcpu];
    const struct piece piece = { b->index, b->index + b->count };
    struct piece *last;

    if (!*others) {
        *others = g_array_new(FALSE, FALSE, sizeof(struct piece));
    }
    last = (*others)->len ?
           &g_array_index(*others, struct piece, (*others)->len - 1) : NULL;
    if (last && last->end == piece.begin) {
        last->end = piece.end;
    } else {
        g_array_append_val(*others, piece);
    }
}

/* Has the process made the first record of a batch whose task is not known, as
 * far as its page tables say? */
static bool is_by_root(const struct user_search *u, unsigned vcpu,
                       const struct btrail_batch *b)
{
    struct btrail_batch part = { .count = 0 };
    struct task task;

    return symbolizer_part(u->symbols, vcpu, b, &part, &task) &&
           task.process && !strcmp(task.process->comm, u->wanted->process);
}

/*
 * Records of other page tables are not read: there are many, of firmware and of
 * a kernel that boots.
 */
static void note_unknown(void *opaque, unsigned vcpu,
                         const struct btrail_batch *b)
{
    struct user_search *u = opaque;
    struct btrail_batch part = { .count = 0 }, rest;
    struct task task;

    if (b->task.known) {
        if (is_unknown(u, b)) {
            add_other(u, vcpu, b);
        }
        return;
    }
    while (symbolizer_part(u->symbols, vcpu, b, &part, &task)) {
        /* Who can have made the record right after a clock is known better. */
        rest = btrail_batch_part(&part, 1, part.count - 1);
        if (is_by_root(u, vcpu, &part) || is_by_root(u, vcpu, &rest)) {
            add_other(u, vcpu, &part);
        }
    }
}

/* A search for a function that is not there */
struct missing_search {
    struct closest closest;
    GStringChunk *names;
    GHashTable *files;
    bool known;                 /* all files, with all symbols */
};

/* A person may have meant a symbol with parameters, or without. */
static void offer_names(void *opaque, struct elf_file *elf)
{
    struct missing_search *m = opaque;
    const struct elf_symbol *all;
    bool whole = strchr(m->closest.word, '(');
    size_t n;

    m->known &= elf && elf_file_has_symbols(elf);
    if (!elf || !g_hash_table_add(m->files, elf)) {
        return;
    }
    all = elf_file_symbols(elf, &n);
    for (size_t i = 0; i < n; i++) {
        g_autofree char *name = demangle(all[i].name, whole);

        closest_offer(&m->closest, all[i].name);
        if (name) {
            const char *last = m->closest.found;

            closest_offer(&m->closest, name);
            if (m->closest.found != last) {
                m->closest.found = g_string_chunk_insert(m->names, name);
            }
        }
    }
}

/* Says that no process of the name has the function. */
static char *say_missing(const struct find_target *s,
                         struct symbolizer *symbols, GHashTable *pids)
{
    const struct btrail_names *names = symbolizer_names(symbols);
    struct missing_search m = { closest_to(s->function), .known = true };
    const struct btrail_process *p;
    g_autofree char *hint = NULL;
    char *text;

    m.names = g_string_chunk_new(256);
    m.files = g_hash_table_new(NULL, NULL);
    for (unsigned i = 0; names && (p = btrail_names_version(names, i)); i++) {
        /* Before it had the name, it was another program. */
        if (g_hash_table_contains(pids, GUINT_TO_POINTER(p->pid)) &&
            !strcmp(p->comm, s->process)) {
            symbolizer_elfs_in(symbols, p, offer_names, &m);
        }
    }
    hint = closest_hint(&m.closest);
    text = m.known && g_hash_table_size(m.files) ?
        g_strdup_printf("process %s has no function %s%s", s->process,
                        s->function, hint) :
        g_strdup_printf("of process %s, no function %s is known%s; not all "
                        "of its symbols are", s->process, s->function, hint);
    g_string_chunk_free(m.names);
    g_hash_table_unref(m.files);
    return text;
}

/* Says that it can only be a process whose name is not known. */
static char *say_unnamed(const struct user_search *u)
{
    g_autofree char *hint = closest_hint(&u->closest);

    return g_strdup_printf("no process %s is named in this trace%s; of some "
                           "records it is not known which process made them",
                           u->wanted->process, hint);
}

/* Where the processes of the name have the function, and where that is not
 * known */
static bool add_user(struct find_target *s, const struct btrail_trace *trace,
                     struct symbolizer *symbols, GError **error)
{
    struct user_search u = { s, symbols, symbolizer_names(symbols) };
    bool ok;

    u.closest = closest_to(s->process);
    u.pids = g_hash_table_new(NULL, NULL);
    u.others = g_hash_table_new_full(btrail_str_hash, g_str_equal, g_free,
                                     NULL);
    /* With a map, functions can be where no snapshot has them. */
    ok = symbolizer_has_map(symbols) ||
         (read_batches(trace, note_pid, &u, error) &&
          (g_hash_table_size(u.pids) || u.unnamed ||
           no_such_process(&u, error)));
    if (ok) {
        u.owners = find_owners(symbols, u.pids, s->function, s->addresses);
        ok = read_batches(trace, note_unknown, &u, error);
        if (!s->addresses->len && !symbolizer_has_map(symbols)) {
            s->missing = g_hash_table_size(u.pids) ?
                         say_missing(s, symbols, u.pids) : say_unnamed(&u);
        }
        g_hash_table_unref(u.owners);
    }
    g_hash_table_unref(u.pids);
    g_hash_table_unref(u.others);
    return ok;
}

static void offer_kernel(const struct btrail_names *names,
                         struct closest *closest)
{
    struct btrail_symbol_era era;
    struct btrail_symbol s;

    for (size_t i = 0;
         names && !btrail_names_symbol_era(names, i, &s, &era); i++) {
        if (btrail_symbol_is_code(s.type)) {
            closest_offer(closest, s.name);
        }
    }
}

/* Which function of the kernel may be meant */
static char *kernel_hint(const struct btrail_names *names, const char *function)
{
    struct closest closest = closest_to(function);

    offer_kernel(names, &closest);
    return closest_hint(&closest);
}

/* Does any version of a process have the function?  Files are searched once. */
static bool any_process_has(struct symbolizer *symbols, const char *function)
{
    const struct btrail_names *names = symbolizer_names(symbols);
    g_autoptr(GArray) addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    const struct btrail_process *p;

    for (unsigned i = 0; !addresses->len &&
                         (p = btrail_names_version(names, i)); i++) {
        symbolizer_starts_in(symbols, p, function, addresses);
    }
    return addresses->len;
}

static void offer_files(struct symbolizer *symbols, struct closest *closest)
{
    const struct btrail_names *names = symbolizer_names(symbols);
    struct missing_search m = { *closest };
    const struct btrail_process *p;

    m.names = g_string_chunk_new(256);
    m.files = g_hash_table_new(NULL, NULL);
    for (unsigned i = 0; (p = btrail_names_version(names, i)); i++) {
        symbolizer_elfs_in(symbols, p, offer_names, &m);
    }
    closest->distance = m.closest.distance;
    closest->found = g_intern_string(m.closest.found);
    g_string_chunk_free(m.names);
    g_hash_table_unref(m.files);
}

bool find_target_is_known(struct symbolizer *symbols, const char *function,
                          struct closest *closest)
{
    const struct btrail_names *names = symbolizer_names(symbols);
    g_autoptr(GArray) starts = g_array_new(FALSE, FALSE,
                                           sizeof(struct kernel_start));

    /* A map has names for any process; "[unknown]" is of what has none. */
    if (!names || symbolizer_has_map(symbols) || *function == '[') {
        return true;
    }
    symbolizer_starts(symbols, function, starts);
    if (starts->len || any_process_has(symbols, function)) {
        return true;
    }
    offer_kernel(names, closest);
    offer_files(symbols, closest);
    return false;
}

struct find_target *find_target_function(const struct btrail_trace *trace,
                                         struct symbolizer *symbols,
                                         const char *process,
                                         const char *function, GError **error)
{
    struct find_target *s = wanted_new();
    GArray *starts = g_array_new(FALSE, FALSE, sizeof(struct kernel_start));
    int ret = symbols ? 0 : btrail_names_open(&s->own_names, trace);

    s->process = g_strdup(process);
    s->function = g_strdup(function);
    if (ret) {
        fail(error, "the trace: %s", btrail_strerror(ret));
        g_array_unref(starts);
        find_target_free(s);
        return NULL;
    }
    if (symbols) {
        symbolizer_starts(symbols, function, starts);
    } else {
        kernel_starts_traced(s->own_names, function, starts);
    }
    s->names = symbols ? symbolizer_names(symbols) : s->own_names;
    add_starts(s, starts);
    if (!process && !s->addresses->len) {
        g_autofree char *hint = kernel_hint(s->names, function);

        agent_fail(error, AGENT_ERROR_NAMES,
                   "the guest's kernel has no function %s%s, or the trace "
                   "has no names", function, hint);
        find_target_free(s);
        return NULL;
    }
    if (process && symbols && !add_user(s, trace, symbols, error)) {
        find_target_free(s);
        return NULL;
    }
    btrail_sort_u64(s->addresses);
    return s;
}

struct find_target *find_target_mark(const struct btrail_trace *trace,
                                     struct symbolizer *symbols,
                                     const struct mark_wanted *mark,
                                     GError **error)
{
    struct find_target *s = wanted_new();

    mark_wanted_copy(&s->mark, mark);
    s->marks = marks_new(trace, symbols, error);
    if (!s->marks || !marks_find(s->marks, mark, s->addresses, error)) {
        find_target_free(s);
        return NULL;
    }
    btrail_sort_u64(s->addresses);
    return s;
}

struct find_target *find_target_instruction(uint64_t address)
{
    struct find_target *s = wanted_new();

    g_array_append_val(s->addresses, address);
    s->blocks = true;
    return s;
}

struct find_target *find_target_addresses(GArray *addresses)
{
    struct find_target *s = wanted_new();

    g_array_unref(s->addresses);
    s->addresses = addresses;
    btrail_sort_u64(addresses);
    return s;
}

struct find_target *find_target_starts(GArray *starts,
                                       struct btrail_names *names)
{
    struct find_target *s = wanted_new();

    s->names = s->own_names = names;
    add_starts(s, starts);
    return s;
}
