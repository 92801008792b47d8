/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes: see processes.h
 */

#include <stdio.h>
#include <string.h>

#include "lib/agent/mapping.h"
#include "lib/agent/names-private.h"
#include "lib/agent/strings.h"
#include "symbolize/processes.h"
#include "util/hash.h"

/* A file may have any number of address spaces; later ones share a name. */
#define MAX_PROCESSES   (1u << 18)
#define MAX_TASKS       (1u << 18)

/*
 * How many mappings may be added to spaces, or be in them then: for each time
 * that a process is found to have changed, and in advance
 */
#define WORK_EACH       4096
#define WORK_MOST       (UINT64_C(1) << 25)

/* What a process has compiled, in place of a file */
struct compiled {
    const char *path;
    const char *build_id;
};

struct processes {
    struct map_file *map;
    const struct btrail_names *names;
    const struct btrail_owners *owners;
    const struct thread_lives *threads;
    struct address_space *none; /* of processes without mappings */
    GHashTable *seen;           /* btrail_names_last() -> struct process */
    GHashTable *by_cr3;         /* CR3 -> struct process */
    GHashTable *foreign;        /* the same, of no known kernel */
    GHashTable *tasks;          /* of struct process, in address spaces */
    GHashTable *who;            /* the first one of each task among them */
    struct process *others;
    struct btrail_strings *strings;
    GHashTable *build_ids;      /* as in snapshots -> in digits */
    GHashTable *compiled;       /* pid -> struct compiled */
    GArray *added;              /* of struct mapping, while they are added */
    uint64_t work_left;
    unsigned count;

    uint64_t last_root;         /* of the last search, and its result */
    const struct process *last;
    enum btrail_certainty last_certainty;
    const struct process *last_task;
    struct btrail_task last_named;
};

static void free_seen(gpointer p)
{
    struct process *process = p;

    address_space_free(process->space);
    g_free(process);
}

static guint hash_who(gconstpointer p)
{
    const struct process *task = p;

    return btrail_hash3((uint64_t)task->nested << 32 ^ (uint64_t)task->pid,
                        task->tid, btrail_str_hash(task->comm)) >> 32;
}

static gboolean equal_who(gconstpointer a, gconstpointer b)
{
    const struct process *x = a, *y = b;

    return x->pid == y->pid && x->tid == y->tid && x->nested == y->nested &&
           !strcmp(x->comm, y->comm);
}

static guint hash_task(gconstpointer p)
{
    return hash_who(p) ^ g_direct_hash(((const struct process *)p)->owner);
}

static gboolean equal_tasks(gconstpointer a, gconstpointer b)
{
    const struct process *x = a, *y = b;

    return x->owner == y->owner && x->kernel == y->kernel && equal_who(x, y);
}

struct processes *processes_new(struct map_file *map,
                                const struct btrail_names *names,
                                const struct btrail_owners *owners)
{
    struct processes *p = g_new0(struct processes, 1);

    p->map = map;
    p->names = names;
    p->owners = owners;
    p->none = address_space_new();
    p->seen = g_hash_table_new_full(NULL, NULL, NULL, free_seen);
    p->by_cr3 = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, NULL,
                                      g_free);
    p->foreign = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, NULL,
                                       g_free);
    p->tasks = g_hash_table_new_full(hash_task, equal_tasks, g_free, NULL);
    p->who = g_hash_table_new(hash_who, equal_who);
    p->strings = btrail_strings_new();
    p->build_ids = g_hash_table_new(NULL, NULL);
    p->compiled = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    p->added = g_array_new(FALSE, FALSE, sizeof(struct mapping));
    p->work_left = WORK_MOST;
    return p;
}

void processes_free(struct processes *p)
{
    if (p) {
        g_hash_table_unref(p->seen);
        g_hash_table_unref(p->by_cr3);
        g_hash_table_unref(p->foreign);
        g_hash_table_unref(p->who);
        g_hash_table_unref(p->tasks);
        address_space_free(p->none);
        g_hash_table_unref(p->build_ids);
        g_hash_table_unref(p->compiled);
        g_array_unref(p->added);
        btrail_strings_free(p->strings);
        g_free(p->others);
        g_free(p);
    }
}

static const char *keep_text(struct processes *p, const char *text)
{
    return btrail_strings_keep(p->strings, text, strlen(text));
}

static struct process *process_new(struct processes *p, uint64_t root)
{
    struct process *process = g_new0(struct process, 1);

    process->cr3 = root;
    process->pid = process->tid = -1;
    process->id = p->count++;
    process->bits = 64;
    process->space = p->none;
    process->who = process->owner = process;
    return process;
}

/* The process that stands for all beyond a limit */
static const struct process *others(struct processes *p)
{
    if (!p->others) {
        /* No page table is there. */
        p->others = process_new(p, UINT64_MAX);
        p->others->comm = "[others]";
    }
    return p->others;
}

/* The process of a page table that no snapshot has found */
static const struct process *process_by_cr3(struct processes *p,
                                            uint64_t root, bool foreign)
{
    GHashTable *table = foreign ? p->foreign : p->by_cr3;
    gint64 key = root;
    struct process *process = g_hash_table_lookup(table, &key);
    struct map_process *named;
    char name[32];

    if (process) {
        return process;
    }
    if (p->count >= MAX_PROCESSES) {
        return others(p);
    }
    named = p->map ? map_file_process(p->map, root) : NULL;
    process = process_new(p, root);
    process->foreign = foreign;
    if (named) {
        process->known = named->name;
        process->comm = named->name;
        process->pid = named->pid;
        process->space = named->space;
    }
    if (!process->known) {
        g_snprintf(name, sizeof(name), "%s:0x%" G_GINT64_MODIFIER "x",
                   root & BTRAIL_CR3_NESTED ? "nested" :
                   root & BTRAIL_CR3_PAE ? "pae" : "cr3",
                   root & ~(BTRAIL_CR3_NESTED | BTRAIL_CR3_PAE));
        process->comm = keep_text(p, name);
    }
    g_hash_table_insert(table, &process->cr3, process);
    return process;
}

const char *processes_build_id(const struct btrail_mapping *mapping,
                               char buf[PROCESSES_BUILD_ID])
{
    uint32_t i;

    for (i = 0; i < MIN(mapping->build_id_size, BTRAIL_BUILD_ID_MAX); i++) {
        sprintf(buf + 2 * i, "%02x", mapping->build_id[i]);
    }
    return i ? buf : NULL;
}

static void set_compiled(const struct compiled *c, struct mapping *m)
{
    m->path = c->path;
    m->build_id = c->build_id;
    m->offset = m->start;
}

/* The same in a string that is kept; equal build-ids are at one place. */
static const char *keep_build_id(struct processes *p,
                                 const struct btrail_mapping *mapping)
{
    const char *known = g_hash_table_lookup(p->build_ids, mapping->build_id);
    char buf[PROCESSES_BUILD_ID];

    if (!known && processes_build_id(mapping, buf)) {
        known = btrail_strings_keep(p->strings, buf, strlen(buf));
        g_hash_table_insert(p->build_ids, (gpointer)mapping->build_id,
                            (char *)known);
    }
    return known;
}

void processes_set_compiled(struct processes *p, uint32_t pid,
                            const char *path, const char *build_id)
{
    struct compiled *c = g_new(struct compiled, 1);
    GList *spaces = p->map ? map_file_processes(p->map) : NULL;

    c->path = keep_text(p, path);
    c->build_id = keep_text(p, build_id);
    g_hash_table_insert(p->compiled, GUINT_TO_POINTER(pid), c);
    for (GList *l = spaces; l; l = l->next) {
        const struct map_process *named = l->data;
        size_t n;
        struct mapping *all = address_space_mappings(named->space, &n);

        for (size_t i = 0; named->pid == pid && i < n; i++) {
            if (btrail_mapping_is_anonymous(0, all[i].path)) {
                set_compiled(c, &all[i]);
            }
        }
    }
    g_list_free(spaces);
}

struct mapping processes_mapping(struct processes *p,
                                 const struct btrail_process *seen,
                                 const struct btrail_mapping *mapping)
{
    const struct compiled *compiled = g_hash_table_lookup(
        p->compiled, GUINT_TO_POINTER(seen->pid));
    struct mapping m = {
        .start = mapping->start, .end = mapping->end,
        .offset = mapping->offset, .path = mapping->path,
        .build_id = mapping->build_id_size ? keep_build_id(p, mapping) : NULL,
        .code = mapping->flags & BTRAIL_MAPPING_EXEC,
    };

    /* The user knows better than the guest. */
    if (compiled && (btrail_mapping_is_compiled(mapping) ||
                     btrail_mapping_is_anonymous(mapping->flags,
                                                 mapping->path))) {
        set_compiled(compiled, &m);
    }
    return m;
}

unsigned processes_bits(const struct btrail_process *seen)
{
    uint32_t n = seen->n_mappings;

    /* The stack of a program of 64 bits is above 4 GiB. */
    return n && seen->mappings[n - 1].end <= UINT64_C(1) << 32 ? 32 : 64;
}

/*
 * Adds the mappings of one version of a process to its space.  Versions can be
 * used in turn, each for a few records, so the work has a limit; what is not
 * added is searched in the version.
 */
static void add_mappings(struct processes *p, struct process *process,
                         const struct btrail_process *seen)
{
    uint32_t i, n = seen->n_mappings;
    bool was_late = process->late;
    size_t work;

    process->bits = processes_bits(seen);
    address_space_mappings(process->space, &work);
    work += n;
    p->work_left = MIN(p->work_left + WORK_EACH, WORK_MOST);
    process->late = work > p->work_left;
    if (process->late) {
        process->changes++;
        return;
    }
    p->work_left -= work;
    g_array_set_size(p->added, 0);
    for (i = 0; i < n; i++) {
        struct mapping m = processes_mapping(p, seen, &seen->mappings[i]);

        g_array_append_val(p->added, m);
    }
    process->changes += address_space_map_all(
        process->space, (const struct mapping *)p->added->data, n) || was_late;
}

/* Sets @tid.  CR3 does not say which one of several threads ran. */
static void find_thread(struct processes *p, struct process *process)
{
    const struct btrail_process *last = btrail_names_last(process->seen);
    const struct btrail_process *seen;
    int64_t tid = -1;
    uint64_t first = UINT64_MAX;

    process->tid = -1;
    for (seen = last; seen; seen = btrail_names_before(seen)) {
        first = MIN(first, seen->first);
        if (!seen->n_threads) {
            /* This snapshot did not read its threads. */
            continue;
        }
        if (seen->n_threads > 1 ||
            (tid >= 0 && tid != (int64_t)seen->threads[0].tid)) {
            return;
        }
        tid = seen->threads[0].tid;
    }
    if (p->threads &&
        thread_lives_all_seen(p->threads, last, process->cr3, first)) {
        process->tid = tid;
    }
}

void processes_set_threads(struct processes *p,
                           const struct thread_lives *threads)
{
    GHashTableIter iter;
    gpointer process;

    p->threads = threads;
    g_hash_table_iter_init(&iter, p->seen);
    while (g_hash_table_iter_next(&iter, NULL, &process)) {
        find_thread(p, process);
    }
}

/* The process that a snapshot found in the guest's memory */
static struct process *process_seen(struct processes *p,
                                    const struct btrail_process *seen)
{
    const struct btrail_process *last = btrail_names_last(seen);
    struct process *process = g_hash_table_lookup(p->seen, last);
    bool first = !process;

    if (first) {
        if (p->count >= MAX_PROCESSES) {
            return NULL;
        }
        process = process_new(p, btrail_cr3_root(seen->pgd));
        process->space = address_space_new();
        process->pid = seen->pid;
        process->known = true;
        process->comm = keep_text(p, last->comm);
        g_hash_table_insert(p->seen, (gpointer)last, process);
    }
    if (process->seen != seen) {
        process->seen = seen;
        add_mappings(p, process, seen);
        if (first) {
            find_thread(p, process);
        }
    }
    return process;
}

/* Is it a process of the kernel that ran?  Another's page tables are gone. */
static bool is_of(const struct btrail_process *seen,
                  const struct symbolizer_where *where)
{
    return !where->kernel || !seen->kernel || seen->kernel == where->kernel;
}

const struct process *processes_find(struct processes *p,
                                     const struct symbolizer_where *where,
                                     enum btrail_certainty *certainty)
{
    const struct btrail_process *seen;
    gint64 root = btrail_cr3_root(where->cr3);

    if (where->kernel == SYMBOLIZER_NO_KERNEL) {
        const struct process *foreign = process_by_cr3(p, root, true);

        *certainty = foreign->known ? BTRAIL_SURE : BTRAIL_UNKNOWN;
        return foreign;
    }
    if (p->last && p->last_root == (uint64_t)root && !p->owners) {
        *certainty = p->last_certainty;
        return p->last;
    }
    p->last_root = root;
    p->last = NULL;
    p->last_certainty = BTRAIL_UNKNOWN;
    if (p->owners && !(p->map && map_file_process(p->map, root))) {
        p->last_certainty = btrail_owners_process(p->owners, where->vcpu,
                                                  where->index, where->time,
                                                  where->cr3, &seen);
        if (p->last_certainty != BTRAIL_UNKNOWN && !is_of(seen, where)) {
            p->last_certainty = BTRAIL_UNKNOWN;
        }
        p->last = p->last_certainty != BTRAIL_UNKNOWN ?
                  process_seen(p, seen) : NULL;
    }
    if (!p->last) {
        p->last = process_by_cr3(p, root, false);
        /* The user who wrote the map is right. */
        p->last_certainty = p->last->known ? BTRAIL_SURE : BTRAIL_UNKNOWN;
    }
    *certainty = p->last_certainty;
    return p->last;
}

/* The task with an owner and names; copies them. */
static const struct process *get_task(struct processes *p,
                                      const struct process *key)
{
    struct process *task = g_hash_table_lookup(p->tasks, key);

    if (task) {
        return task;
    }
    if (g_hash_table_size(p->tasks) >= MAX_TASKS) {
        return others(p);
    }
    task = g_memdup2(key, sizeof(*key));
    task->cr3 = key->owner->cr3;
    task->comm = keep_text(p, key->comm);
    task->known = true;
    g_hash_table_add(p->tasks, task);
    task->who = g_hash_table_lookup(p->who, task);
    if (!task->who) {
        task->who = task;
        g_hash_table_add(p->who, task);
    }
    return task;
}

const struct process *processes_borrower(struct processes *p,
                                         const struct process *owner,
                                         bool idle)
{
    const struct process key = {
        .owner = owner, .kernel = true, .pid = idle ? 0 : -1,
        .tid = idle ? 0 : -1, .comm = idle ? NAME_IDLE : NAME_TASK,
    };

    return get_task(p, &key);
}

/*
 * A task that has returned its page tables, as it ends, or that the kernel
 * leaves, runs with those of whoever ran before or runs next.  Then its process
 * has had some of its own before, which one that shares another's, as after
 * vfork(), has not had.  NULL if it is not known.
 */
static const struct process *find_former(struct processes *p,
                                         const struct symbolizer_where *where,
                                         const struct btrail_task *task)
{
    uint32_t kernel = where->kernel == SYMBOLIZER_NO_KERNEL ? 0 : where->kernel;
    bool gone;
    const struct btrail_process *seen =
        btrail_names_last_of_pid(p->names, where->time, kernel, task->pid,
                                 &gone);

    /*
     * It can have executed another program since, or another process can have
     * got its number.
     */
    return seen && ((!gone && task->tid != task->pid) ||
                    !strcmp(btrail_names_last(seen)->comm, task->name)) ?
           process_seen(p, seen) : NULL;
}

/*
 * The process whose mappings a task has.  Page tables can belong to another
 * process than when a snapshot found them.
 */
static const struct process *find_owner(struct processes *p,
                                        const struct symbolizer_where *where,
                                        const struct btrail_task *task)
{
    enum btrail_certainty certainty;
    const struct process *found = processes_find(p, where, &certainty);
    const struct btrail_process *seen;
    const struct process *own;

    if ((found->seen && found->seen->pid == task->pid) || !p->names ||
        found == p->others || (!found->seen && found->known)) {
        return found;
    }
    seen = btrail_names_of_pid(p->names, where->time, where->cr3, task->pid);
    own = seen && is_of(seen, where) ? process_seen(p, seen) :
          certainty == BTRAIL_SURE ? find_former(p, where, task) : NULL;
    if (own) {
        return own;
    }
    /* Processes can share an address space, as after vfork(). */
    return certainty == BTRAIL_LIKELY ?
           process_by_cr3(p, btrail_cr3_root(where->cr3), false) : found;
}

const struct process *processes_task(struct processes *p,
                                     const struct symbolizer_where *where,
                                     const struct btrail_task *task)
{
    enum btrail_certainty certainty;
    struct process key = {
        .kernel = task->kernel, .nested = task->nested,
        .pid = task->pid, .tid = task->tid,
    };
    const struct map_process *named;

    key.owner = task->kernel ? processes_find(p, where, &certainty) :
                find_owner(p, where, task);
    if (p->last_task && p->last_task->owner == key.owner &&
        !memcmp(&p->last_named, task, sizeof(*task))) {
        return p->last_task;
    }
    key.comm = task->name;
    named = p->map && !task->kernel ? map_file_process(p->map, key.owner->cr3) :
            NULL;
    if (named) {
        key.pid = named->pid >= 0 ? named->pid : key.pid;
        key.comm = named->name ? named->name : key.comm;
    }
    p->last_named = *task;
    p->last_task = get_task(p, &key);
    return p->last_task;
}
