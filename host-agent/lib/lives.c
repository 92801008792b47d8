/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Processes over time: see lives.h
 */

#include <glib.h>
#include <string.h>

#include "lib/agent/identity.h"
#include "lib/agent/mapping.h"
#include "lib/internal/lives.h"
#include "lib/internal/snapshot.h"
#include "util/search.h"

/*
 * How many lives of page tables are searched before a time, and after it; or
 * how many that had them at the same time
 */
#define NEAR    256

/* About what a life takes in tables */
#define OVERHEAD    300

/*
 * What a process was like in successive snapshots that found the same.  So a
 * trace of days takes no more memory than what changed in it.
 */
struct life_version {
    struct btrail_process process;  /* first: users have a pointer to it */
    struct btrail_life *life;
    guint number;               /* in the life */
    uint64_t begin;             /* of the first snapshot that found it so */
    uint64_t end;               /* of the last one */
    struct btrail_mapping *joined;  /* the process's mappings if not those of
                                     * the snapshot; or NULL */
};

struct btrail_life {
    struct btrail_identity id;
    bool told;
    uint64_t first;
    uint64_t last;
    GPtrArray *versions;        /* in the order of time */
};

/* The lives that have used page tables at one place, one after the other */
struct life_root {
    GPtrArray *lives;           /* in the order in which they were first seen */
    struct btrail_life **latest;    /* of those up to here the one seen last */
    uint64_t *most;             /* a tree: when those below were seen last */
    guint leaves;               /* of the tree: more than lives */
};

/* When a snapshot was taken */
struct life_moment {
    uint64_t begin;
    uint64_t end;
};

struct btrail_lives {
    bool told;
    GPtrArray *snapshots;       /* that versions are of */
    GPtrArray *lives;
    GPtrArray *versions;
    GHashTable *by_identity;    /* of struct btrail_life, by its id */
    GHashTable *by_root;        /* uint64_t to struct life_root */
    GHashTable *user_roots;     /* uint64_t to that of kernel mode */
    GHashTable *by_pid;         /* to arrays of struct btrail_life that have
                                 * page tables, in the order of @first */
    GArray *moments;            /* struct life_moment, in the order of time */
    struct btrail_strings *strings; /* of all snapshots */
    uint64_t memory;
};

/* Is it found by a CR3?  Threads of the kernel only borrow theirs. */
static bool owns_root(const struct btrail_process *p)
{
    return p->pgd && (!(p->flags & BTRAIL_PROCESS_KERNEL) || !p->pid);
}

static bool same_mapping(const struct btrail_mapping *a,
                         const struct btrail_mapping *b)
{
    return a->start == b->start && a->end == b->end &&
           a->offset == b->offset && a->flags == b->flags &&
           a->build_id_size == b->build_id_size &&
           a->build_id == b->build_id && a->path == b->path;
}

/*
 * All except when it was seen, and what ran it at that moment.  Strings are the
 * same if they are at the same place.
 */
static bool same_content(const struct btrail_process *a,
                         const struct btrail_process *b)
{
    uint32_t i;

    if (a->flags != b->flags || a->parent != b->parent ||
        a->n_threads != b->n_threads || a->n_mappings != b->n_mappings ||
        a->command_line_size != b->command_line_size ||
        a->command_line != b->command_line || a->comm != b->comm ||
        a->exe != b->exe) {
        return false;
    }
    for (i = 0; i < a->n_threads; i++) {
        if (a->threads[i].tid != b->threads[i].tid ||
            a->threads[i].comm != b->threads[i].comm) {
            return false;
        }
    }
    for (i = 0; i < a->n_mappings; i++) {
        if (!same_mapping(&a->mappings[i], &b->mappings[i])) {
            return false;
        }
    }
    return true;
}

static void add_root(struct btrail_lives *n, uint64_t root,
                     struct btrail_life *life)
{
    struct life_root *r;

    root = btrail_cr3_root(root);
    if (!root) {
        return;
    }
    r = g_hash_table_lookup(n->by_root, &root);
    if (!r) {
        r = g_new0(struct life_root, 1);
        r->lives = g_ptr_array_new();
        g_hash_table_insert(n->by_root, g_memdup2(&root, sizeof(root)), r);
    }
    g_ptr_array_add(r->lives, life);
}

/* If a guest says that two have the same one, the first one counts. */
static void add_user_root(struct btrail_lives *n,
                          const struct btrail_process *p)
{
    uint64_t root = btrail_cr3_root(p->user_pgd);

    if (root && !g_hash_table_contains(n->user_roots, &root)) {
        uint64_t pgd = btrail_cr3_root(p->pgd);

        g_hash_table_insert(n->user_roots, g_memdup2(&root, sizeof(root)),
                            g_memdup2(&pgd, sizeof(pgd)));
    }
}

static void add_pid(struct btrail_lives *n, struct btrail_life *life)
{
    gpointer pid = GUINT_TO_POINTER(life->id.pid);
    GPtrArray *lives = g_hash_table_lookup(n->by_pid, pid);

    if (!lives) {
        lives = g_ptr_array_new();
        g_hash_table_insert(n->by_pid, pid, lives);
    }
    g_ptr_array_add(lives, life);
}

static void free_root(gpointer p)
{
    struct life_root *r = p;

    g_ptr_array_free(r->lives, TRUE);
    g_free(r->latest);
    g_free(r->most);
    g_free(r);
}

static gint by_first(gconstpointer p, gconstpointer q)
{
    const struct btrail_life *a = *(struct btrail_life *const *)p;
    const struct btrail_life *b = *(struct btrail_life *const *)q;

    return BTRAIL_COMPARE(a->first, b->first);
}

static void sort_pid(gpointer key, gpointer value, gpointer opaque)
{
    g_ptr_array_sort(value, by_first);
}

static void sort_root(gpointer key, gpointer value, gpointer opaque)
{
    struct life_root *r = value;
    guint i;

    g_ptr_array_sort(r->lives, by_first);
    r->latest = g_new(struct btrail_life *, r->lives->len);
    for (i = 0; i < r->lives->len; i++) {
        struct btrail_life *life = g_ptr_array_index(r->lives, i);

        r->latest[i] = i && r->latest[i - 1]->last >= life->last ?
                       r->latest[i - 1] : life;
    }
    /* The leaves of the tree are after its inner nodes; its root is No 1. */
    r->leaves = 1u << g_bit_storage(r->lives->len);
    r->most = g_new0(uint64_t, 2 * (gsize)r->leaves);
    for (i = 0; i < r->lives->len; i++) {
        const struct btrail_life *life = g_ptr_array_index(r->lives, i);

        r->most[r->leaves + i] = life->last;
    }
    for (i = r->leaves; --i;) {
        r->most[i] = MAX(r->most[2 * i], r->most[2 * i + 1]);
    }
}

/*
 * Of the first @n lives, the place of the last one that was still seen at
 * @from, counted from 1; 0 if none was.
 */
static guint alive_before(const struct life_root *r, guint n, uint64_t from)
{
    guint i;

    for (i = r->leaves + n; i > 1; i /= 2) {
        if (i % 2 && r->most[i - 1] >= from) {
            for (i--; i < r->leaves;) {
                i = 2 * i + (r->most[2 * i + 1] >= from);
            }
            return i - r->leaves + 1;
        }
    }
    return 0;
}

/* Bytes that the arrays of a process take */
static uint64_t size_of(const struct btrail_process *p)
{
    return p->n_threads * sizeof(*p->threads) +
           p->n_mappings * sizeof(*p->mappings);
}

/* Returns true if the snapshot must be kept: a version is of it. */
static bool add_process(struct btrail_lives *n,
                        const struct btrail_snapshot *snapshot,
                        struct btrail_process *p)
{
    struct btrail_identity id = btrail_identity_of(p);
    struct btrail_life *life;
    struct life_version *v = NULL;

    id.user_pgd = p->user_pgd;
    life = g_hash_table_lookup(n->by_identity, &id);
    if (!life) {
        life = g_new0(struct btrail_life, 1);
        life->id = id;
        life->told = n->told;
        life->first = p->first;
        life->last = p->last;
        life->versions = g_ptr_array_new();
        g_ptr_array_add(n->lives, life);
        g_hash_table_insert(n->by_identity, &life->id, life);
        if (owns_root(p)) {
            add_pid(n, life);
            add_root(n, p->pgd, life);
            if (p->user_pgd != p->pgd) {
                add_root(n, p->user_pgd, life);
                add_user_root(n, p);
            }
        }
        n->memory += sizeof(*life) + OVERHEAD;
    } else {
        life->first = MIN(life->first, p->first);
        life->last = MAX(life->last, p->last);
        v = g_ptr_array_index(life->versions, life->versions->len - 1);
    }
    if (v && (p->flags & BTRAIL_PROCESS_SEEN)) {
        return false;
    }
    p->flags |= n->told ? BTRAIL_PROCESS_TOLD : 0;
    if (v && same_content(&v->process, p)) {
        v->end = MAX(v->end, snapshot->end);
        return false;
    }
    if (v && (v->process.flags & BTRAIL_PROCESS_SEEN)) {
        /* Here is what was missing. */
        n->memory += size_of(p);
        v->process = *p;
        v->end = snapshot->end;
        return true;
    }
    v = g_new0(struct life_version, 1);
    v->process = *p;
    v->life = life;
    v->number = life->versions->len;
    v->begin = snapshot->begin;
    v->end = snapshot->end;
    g_ptr_array_add(life->versions, v);
    g_ptr_array_add(n->versions, v);
    n->memory += sizeof(*v) + 64 + size_of(p);
    return true;
}

/* Frees what no version has. */
static void drop_arrays(struct btrail_process *p)
{
    g_clear_pointer(&p->threads, g_free);
    g_clear_pointer(&p->mappings, g_free);
    p->n_threads = p->n_mappings = 0;
}

static void add_snapshot(struct btrail_lives *n,
                         struct btrail_snapshot *snapshot)
{
    struct life_moment moment = { snapshot->begin, snapshot->end };
    bool needed = false;
    uint32_t i;

    g_array_append_val(n->moments, moment);
    n->memory += sizeof(moment);
    for (i = 0; i < snapshot->n; i++) {
        if (add_process(n, snapshot, &snapshot->processes[i])) {
            needed = true;
        } else {
            drop_arrays(&snapshot->processes[i]);
        }
    }
    if (needed) {
        g_ptr_array_add(n->snapshots, snapshot);
        n->memory += snapshot->n * sizeof(*snapshot->processes);
    } else {
        btrail_snapshot_free(snapshot);
    }
}

void btrail_lives_add(struct btrail_lives *n, uint32_t kernel,
                      const void *data, size_t size)
{
    struct btrail_snapshot *snapshot;

    if (!btrail_snapshot_decode_kept(&snapshot, data, size, n->strings)) {
        for (uint32_t i = 0; i < snapshot->n; i++) {
            snapshot->processes[i].kernel = kernel;
        }
        add_snapshot(n, snapshot);
    }
}

static void free_life(gpointer p)
{
    struct btrail_life *life = p;

    g_ptr_array_free(life->versions, TRUE);
    g_free(life);
}

static void free_version(gpointer p)
{
    struct life_version *v = p;

    g_free(v->joined);
    g_free(v);
}

struct btrail_lives *btrail_lives_new(bool told)
{
    struct btrail_lives *n = g_new0(struct btrail_lives, 1);

    n->told = told;
    n->snapshots = g_ptr_array_new_with_free_func(
        (GDestroyNotify)btrail_snapshot_free);
    n->lives = g_ptr_array_new_with_free_func(free_life);
    n->versions = g_ptr_array_new_with_free_func(free_version);
    n->by_identity = g_hash_table_new(btrail_identity_hash,
                                      btrail_identity_equal);
    n->by_root = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, g_free,
                                       free_root);
    n->user_roots = g_hash_table_new_full(btrail_int64_hash, g_int64_equal,
                                          g_free, g_free);
    n->by_pid = g_hash_table_new_full(NULL, NULL, NULL,
                                      (GDestroyNotify)g_ptr_array_unref);
    n->moments = g_array_new(FALSE, FALSE, sizeof(struct life_moment));
    n->strings = btrail_strings_new();
    return n;
}

void btrail_lives_free(struct btrail_lives *n)
{
    g_hash_table_destroy(n->by_identity);
    g_hash_table_destroy(n->by_root);
    g_hash_table_destroy(n->user_roots);
    g_hash_table_destroy(n->by_pid);
    g_ptr_array_free(n->versions, TRUE);
    g_ptr_array_free(n->lives, TRUE);
    g_ptr_array_free(n->snapshots, TRUE);
    g_array_free(n->moments, TRUE);
    btrail_strings_free(n->strings);
    g_free(n);
}

static gint by_begin(gconstpointer p, gconstpointer q)
{
    const struct life_moment *a = p, *b = q;

    return BTRAIL_COMPARE(a->begin, b->begin);
}

void btrail_lives_complete(struct btrail_lives *n)
{
    g_array_sort(n->moments, by_begin);
    g_hash_table_foreach(n->by_root, sort_root, NULL);
    g_hash_table_foreach(n->by_pid, sort_pid, NULL);
}

const struct btrail_process *
btrail_lives_version(const struct btrail_lives *lives, unsigned i)
{
    const struct life_version *v = i < lives->versions->len ?
                              g_ptr_array_index(lives->versions, i) : NULL;

    return v ? &v->process : NULL;
}

uint64_t btrail_lives_memory(const struct btrail_lives *lives)
{
    return lives->memory + btrail_strings_memory(lives->strings);
}

/* Is there a snapshot that began after @from and had ended by @to? */
static bool has_moment(const struct btrail_lives *n, uint64_t from, uint64_t to)
{
    guint i = BTRAIL_UP_TO(n->moments->data, n->moments->len,
                           struct life_moment,
                           begin, from);

    /* They do not overlap, unless the file lies: check the next one. */
    return i < n->moments->len &&
           g_array_index(n->moments, struct life_moment, i).end <= to;
}

/* The last version that begins at @time or before; the first if none does */
static guint version_at(const struct btrail_life *life, uint64_t time)
{
    size_t n = BTRAIL_PTRS_UP_TO(life->versions, struct life_version, begin,
                                 time);

    return n ? n - 1 : 0;
}

const struct btrail_process *
btrail_life_process(const struct btrail_life *life, uint64_t time)
{
    struct life_version *v = g_ptr_array_index(life->versions,
                                               version_at(life, time));

    return &v->process;
}

/* How many of its lives were first seen at @time or before */
static guint first_after(const struct life_root *r, uint64_t time)
{
    return BTRAIL_PTRS_UP_TO(r->lives, struct btrail_life, first, time);
}

const struct btrail_process *
btrail_names_last(const struct btrail_process *process)
{
    return process ? btrail_life_process(
        ((const struct life_version *)process)->life, UINT64_MAX) : NULL;
}

const struct btrail_process *
btrail_names_before(const struct btrail_process *process)
{
    const struct life_version *v = (const struct life_version *)process;

    return v && v->number ?
           g_ptr_array_index(v->life->versions, v->number - 1) : NULL;
}

uint64_t btrail_lives_root(const struct btrail_lives *lives, uint64_t cr3)
{
    uint64_t root = btrail_cr3_root(cr3);
    const uint64_t *kernel = g_hash_table_lookup(lives->user_roots, &root);

    return kernel ? *kernel : root;
}

struct btrail_life *btrail_lives_find(const struct btrail_lives *lives,
                                      uint64_t root, uint64_t from,
                                      uint64_t to)
{
    const struct life_root *r = g_hash_table_lookup(lives->by_root, &root);
    guint i = r && from <= to ?
              alive_before(r, first_after(r, to), from) : 0;

    return i && !alive_before(r, i - 1, from) ?
           g_ptr_array_index(r->lives, i - 1) : NULL;
}

struct btrail_life *btrail_lives_of_pid(const struct btrail_lives *lives,
                                        uint64_t time, uint64_t cr3,
                                        uint32_t pid)
{
    uint64_t root = btrail_cr3_root(cr3);
    const struct life_root *r = g_hash_table_lookup(lives->by_root, &root);
    guint next = r ? first_after(r, time) : 0;

    for (guint i = 0; r && i < NEAR; i++) {
        struct btrail_life *before = i < next ?
                                     r->lives->pdata[next - 1 - i] : NULL;
        struct btrail_life *after = i < r->lives->len - next ?
                                    r->lives->pdata[next + i] : NULL;

        if (before && before->id.pid == pid) {
            return before;
        }
        if (after && after->id.pid == pid) {
            return after;
        }
        if (!before && !after) {
            break;
        }
    }
    return NULL;
}

struct btrail_life *btrail_lives_last_of_pid(const struct btrail_lives *lives,
                                             uint64_t time, uint32_t kernel,
                                             uint32_t pid, bool *gone)
{
    const GPtrArray *all = g_hash_table_lookup(lives->by_pid,
                                               GUINT_TO_POINTER(pid));
    guint n = all ? BTRAIL_PTRS_UP_TO(all, struct btrail_life, first, time) : 0;

    for (guint i = 0; i < MIN(n, NEAR); i++) {
        struct btrail_life *life = g_ptr_array_index(all, n - 1 - i);
        const struct btrail_process *p = btrail_life_process(life, time);

        if (!kernel || !p->kernel || p->kernel == kernel) {
            *gone = life->last < time && has_moment(lives, life->last, time);
            return life;
        }
    }
    return NULL;
}

enum btrail_certainty
btrail_lives_process(const struct btrail_lives *lives, uint64_t time,
                     uint64_t until, uint64_t cr3,
                     const struct btrail_process **process)
{
    uint64_t root = btrail_cr3_root(cr3);
    const struct life_root *r = g_hash_table_lookup(lives->by_root, &root);
    const struct btrail_life *in = NULL, *before, *after;
    bool shared = false;
    guint low, first, i;

    if (!r) {
        return BTRAIL_UNKNOWN;
    }
    first = low = first_after(r, time);
    for (i = 0; (low = alive_before(r, low, until)); i++) {
        const struct btrail_life *life = g_ptr_array_index(r->lives, --low);

        if ((in && in->id.mm != life->id.mm) || i == NEAR) {
            return BTRAIL_UNKNOWN;
        }
        shared |= in != NULL;
        if (!in || life->id.start_time < in->id.start_time) {
            in = life;
        }
    }
    if (in) {
        *process = btrail_life_process(in, time);
        return shared || lives->told ? BTRAIL_LIKELY : BTRAIL_SURE;
    }
    if (lives->told) {
        /*
         * The guest has said when they began and ended: at other times the page
         * tables were another's.
         */
        return BTRAIL_UNKNOWN;
    }
    before = first ? r->latest[first - 1] : NULL;
    after = first < r->lives->len ? g_ptr_array_index(r->lives, first) : NULL;
    /* A process that a later snapshot has not found can be gone any time. */
    if (before && (after || has_moment(lives, before->last, UINT64_MAX))) {
        return BTRAIL_UNKNOWN;
    }
    if (after && has_moment(lives, 0, after->first)) {
        return BTRAIL_UNKNOWN;
    }
    if (before || after) {
        *process = btrail_life_process(before ? before : after, time);
        return BTRAIL_LIKELY;
    }
    return BTRAIL_UNKNOWN;
}

/*
 * What processes have compiled
 */

static bool is_anonymous(const struct btrail_mapping *m)
{
    return btrail_mapping_is_anonymous(m->flags, m->path);
}

static bool is_of_file(const struct btrail_mapping *m)
{
    return !is_anonymous(m);
}

static bool is_any(const struct btrail_mapping *m)
{
    return true;
}

/* Those of @all that are @wanted, without what those of @over that are @covers
 * have; both are in the order of addresses. */
static GArray *without(const struct btrail_mapping *all, uint32_t n,
                       bool (*wanted)(const struct btrail_mapping *),
                       const struct btrail_mapping *over, uint32_t n_over,
                       bool (*covers)(const struct btrail_mapping *))
{
    GArray *left = g_array_new(FALSE, FALSE, sizeof(*all));
    uint32_t next = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct btrail_mapping rest = all[i];

        if (!wanted(&rest)) {
            continue;
        }
        while (next < n_over && over[next].end <= rest.start) {
            next++;
        }
        for (uint32_t j = next; j < n_over && over[j].start < rest.end; j++) {
            struct btrail_mapping before = rest;

            if (!covers(&over[j])) {
                continue;
            }
            before.end = MAX(over[j].start, rest.start);
            if (before.end > before.start) {
                g_array_append_val(left, before);
            }
            rest.offset += MIN(over[j].end, rest.end) - rest.start;
            rest.start = MIN(over[j].end, rest.end);
        }
        if (rest.end > rest.start) {
            g_array_append_val(left, rest);
        }
    }
    return left;
}

static gint by_address(gconstpointer p, gconstpointer q)
{
    const struct btrail_mapping *a = p, *b = q;

    return BTRAIL_COMPARE(a->start, b->start);
}

static void join_compiled(struct btrail_lives *n, struct life_version *v,
                          const struct btrail_process *told)
{
    struct btrail_process *p = &v->process;
    GArray *compiled = without(told->mappings, told->n_mappings,
                               btrail_mapping_is_compiled, p->mappings,
                               p->n_mappings, is_of_file);
    GArray *others;

    if (compiled->len) {
        others = without(p->mappings, p->n_mappings, is_any,
                         (const struct btrail_mapping *)compiled->data,
                         compiled->len, is_any);
        g_array_append_vals(others, compiled->data, compiled->len);
        g_array_sort(others, by_address);
        p->n_mappings = others->len;
        p->mappings = v->joined =
            (struct btrail_mapping *)g_array_free(others, FALSE);
        n->memory += p->n_mappings * sizeof(*p->mappings);
    }
    g_array_free(compiled, TRUE);
}

uint64_t btrail_lives_add_compiled(struct btrail_lives *n, unsigned version,
                                   const struct btrail_lives *told)
{
    struct life_version *v = g_ptr_array_index(n->versions, version);
    const struct life_version *next =
        v->number + 1 < v->life->versions->len ?
        g_ptr_array_index(v->life->versions, v->number + 1) : NULL;
    uint64_t last = next ? next->begin - 1 : UINT64_MAX;
    const struct btrail_life *same = btrail_lives_of_pid(
        told, v->begin, v->process.pgd, v->process.pid);

    /* What it compiles in the meantime is there until the next one. */
    if (same && !v->joined) {
        join_compiled(n, v, btrail_life_process(same, last));
    }
    return v->begin;
}

static const struct btrail_mapping *find_mapping(const struct life_version *v,
                                                 uint64_t address)
{
    const struct btrail_mapping *all = v->process.mappings;
    size_t n = BTRAIL_UP_TO(all, v->process.n_mappings, struct btrail_mapping,
                            start, address);

    return n && address < all[n - 1].end ? &all[n - 1] : NULL;
}

/* Is what is at an address the same, however far it reaches? */
static bool same_place(const struct btrail_mapping *a,
                       const struct btrail_mapping *b)
{
    return a->start - a->offset == b->start - b->offset &&
           a->path == b->path && a->build_id_size == b->build_id_size &&
           a->build_id == b->build_id;
}

enum btrail_certainty
btrail_names_mapping(const struct btrail_names *names,
                     const struct btrail_process *process, uint64_t time,
                     uint64_t address, const struct btrail_mapping **mapping)
{
    const struct life_version *before = NULL, *after = NULL;
    const struct btrail_mapping *a, *b;
    const struct btrail_life *life;
    guint i;

    if (!mapping) {
        return BTRAIL_UNKNOWN;
    }
    *mapping = NULL;
    if (!names || !process) {
        return BTRAIL_UNKNOWN;
    }
    life = ((const struct life_version *)process)->life;
    i = version_at(life, time);
    before = g_ptr_array_index(life->versions, i);
    if (before->begin > time) {
        after = before;
        before = NULL;
    } else if (before->end >= time) {
        after = before;
    } else if (i + 1 < life->versions->len) {
        after = g_ptr_array_index(life->versions, i + 1);
    }
    a = before ? find_mapping(before, address) : NULL;
    b = after ? find_mapping(after, address) : NULL;
    if (a && b && !same_place(a, b)) {
        bool was_code = a->flags & BTRAIL_MAPPING_EXEC;

        if (was_code == !!(b->flags & BTRAIL_MAPPING_EXEC)) {
            return BTRAIL_UNKNOWN;
        }
        a = was_code ? a : NULL;
        b = was_code ? NULL : b;
    }
    *mapping = a ? a : b;
    return a && b && !life->told ? BTRAIL_SURE :
           a || b ? BTRAIL_LIKELY : BTRAIL_UNKNOWN;
}

