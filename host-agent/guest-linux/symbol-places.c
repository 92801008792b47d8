/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The places of a symbol: see symbol-places.h
 */

#include <string.h>

#include "guest-linux/dynamic-symbols.h"
#include "guest-linux/process.h"
#include "guest-linux/symbol-places.h"
#include "lib/agent/identity.h"
#include "util/hash.h"

#define RANGES_MAX      8               /* of a file, that are executable */
/* Pages that may be read per snapshot: some milliseconds */
#define SNAPSHOT_BUDGET     (1u << 14)
#define FILE_COST       64              /* of a search in a file, in pages */

struct file_range {
    uint64_t start;
    uint64_t end;
    uint64_t offset;
};

/* A file that a process has mapped, to be executed */
struct mapped_file {
    char *path;
    uint8_t build_id[BTRAIL_BUILD_ID_MAX];
    uint32_t build_id_size;
    bool is_file;                       /* and not deleted, or known by id */
    uint64_t base;                      /* of its beginning; 0 if it has none */
    struct file_range ranges[RANGES_MAX];
    unsigned n_ranges;
    bool asked;                         /* no file is known on the host */
    bool known;                         /* where it has the symbol, if at all */
    bool capped;                        /* it has more than these */
    GArray *addresses;                  /* uint64_t; NULL: none */
};

struct place_process {
    uint64_t root, user_root;
    struct btrail_identity id;
    uint64_t round;
    bool pending;                       /* there are modules not known */
    GArray *modules;                    /* of struct mapped_file */
};

struct symbol_place {
    uint64_t root;
    uint64_t address;
};

struct symbol_places {
    char *process;
    char *symbol;
    struct symbol_files files;

    GMutex lock;
    GHashTable *set;                    /* struct place; under the lock */
    unsigned count;                     /* atomic */
    bool capped;                        /* atomic */

    /* What follows belongs to the thread of symbol_places_snapshot(). */
    GHashTable *processes;              /* struct place_process by root */
    unsigned modules;                   /* of all of them */
    uint64_t round;
    bool changed;
    uint64_t from;                      /* root to begin with, then */
};

static GHashTable *new_set(void)
{
    return g_hash_table_new_full(btrail_pair_hash, btrail_pair_equal,
                                 g_free, NULL);
}

static void clear_module(gpointer p)
{
    struct mapped_file *m = p;

    g_free(m->path);
    g_clear_pointer(&m->addresses, g_array_unref);
}

static void free_place_process(gpointer p)
{
    struct place_process *process = p;

    g_array_unref(process->modules);
    g_free(process);
}

struct symbol_places *
symbol_places_new(const char *process, const char *symbol,
                  const struct symbol_files *files)
{
    struct symbol_places *p = g_new0(struct symbol_places, 1);

    p->process = g_strdup(process);
    p->symbol = g_strdup(symbol);
    p->files = *files;
    g_mutex_init(&p->lock);
    p->set = new_set();
    p->processes = g_hash_table_new_full(btrail_int64_hash, g_int64_equal, NULL,
                                         free_place_process);
    return p;
}

void symbol_places_free(struct symbol_places *p)
{
    if (p) {
        g_free(p->process);
        g_free(p->symbol);
        g_mutex_clear(&p->lock);
        g_hash_table_unref(p->set);
        g_hash_table_unref(p->processes);
        g_free(p);
    }
}

/*
 * What processes have mapped
 */

/* Is a mapping of the same file as the one before it? */
static bool is_of(const struct mapped_file *m,
                  const struct btrail_mapping *next)
{
    return m->path && next->offset && !strcmp(m->path, next->path);
}

static void add_to_file(struct mapped_file *m,
                        const struct btrail_mapping *next)
{
    if (!m->path) {
        m->path = g_strdup(next->path);
        m->base = next->offset ? 0 : next->start;
    }
    if (next->build_id && !m->build_id_size &&
        next->build_id_size <= sizeof(m->build_id)) {
        m->build_id_size = next->build_id_size;
        memcpy(m->build_id, next->build_id, next->build_id_size);
    }
    m->is_file = next->flags & BTRAIL_MAPPING_FILE && *m->path == '/' &&
                 (m->build_id_size || !(next->flags & BTRAIL_MAPPING_DELETED));
    if (next->flags & BTRAIL_MAPPING_EXEC && m->n_ranges < RANGES_MAX) {
        m->ranges[m->n_ranges++] = (struct file_range) {
            next->start, next->end, next->offset,
        };
    }
}

/* Only files with executable mappings matter. */
static void end_module(struct place_process *process, struct mapped_file *m)
{
    if (m->n_ranges) {
        process->pending = true;
        g_array_append_vals(process->modules, m, 1);
    } else {
        g_free(m->path);
    }
    memset(m, 0, sizeof(*m));
}

static void read_mappings(struct place_process *process,
                          const struct btrail_process *p, unsigned most)
{
    struct mapped_file m = { NULL };
    uint32_t i;

    for (i = 0; i < p->n_mappings && process->modules->len < most; i++) {
        const struct btrail_mapping *next = &p->mappings[i];

        /* Such as memory without a file between two mappings of a file */
        if (!(next->flags & BTRAIL_MAPPING_FILE) &&
            strcmp(next->path, "[vdso]")) {
            continue;
        }
        if (!is_of(&m, next)) {
            end_module(process, &m);
        }
        add_to_file(&m, next);
    }
    if (process->modules->len < most) {
        end_module(process, &m);
    }
    g_free(m.path);
}

static bool same_module(const struct mapped_file *a,
                        const struct mapped_file *b)
{
    return a->base == b->base && a->n_ranges == b->n_ranges &&
           !memcmp(a->ranges, b->ranges, a->n_ranges * sizeof(*a->ranges)) &&
           a->build_id_size == b->build_id_size &&
           !memcmp(a->build_id, b->build_id, a->build_id_size) &&
           !strcmp(a->path, b->path);
}

/* What was found in a file holds while it is mapped as it was. */
static void carry_over(struct place_process *to,
                       const struct place_process *from)
{
    unsigned i, k = 0;

    /* Both are sorted by address. */
    for (i = 0; i < to->modules->len; i++) {
        struct mapped_file *m = &g_array_index(to->modules, struct mapped_file,
                                               i);
        const struct mapped_file *old = NULL;

        for (; k < from->modules->len; k++) {
            old = &g_array_index(from->modules, struct mapped_file, k);
            if (old->ranges[0].start >= m->ranges[0].start) {
                break;
            }
        }
        if (k < from->modules->len && same_module(m, old)) {
            m->asked = old->asked;
            m->known = old->known;
            m->capped = old->capped;
            m->addresses = old->addresses ? g_array_ref(old->addresses) : NULL;
        }
    }
}

static bool same_process(const struct place_process *a,
                         const struct btrail_process *p)
{
    struct btrail_identity id = btrail_identity_of(p);

    return btrail_identity_equal(&a->id, &id);
}

static void drop_process(struct symbol_places *p,
                         const struct place_process *process)
{
    p->modules -= process->modules->len;
    p->changed = true;
    g_hash_table_remove(p->processes, &process->root);
}

static void learn_process(struct symbol_places *p,
                          const struct btrail_process *found)
{
    struct place_process *old = g_hash_table_lookup(p->processes, &found->pgd);
    struct place_process *new;

    if (old && found->flags & BTRAIL_PROCESS_SEEN &&
        same_process(old, found)) {
        p->changed |= old->user_root != found->user_pgd;
        old->user_root = found->user_pgd;
        old->round = p->round;
        return;
    }
    if (found->flags & BTRAIL_PROCESS_SEEN || !found->pgd ||
        !process_is(found, p->process) ||
        (!old && g_hash_table_size(p->processes) ==
         PLACES_PROCESSES)) {
        if (old) {
            drop_process(p, old);
        }
        return;
    }
    new = g_new0(struct place_process, 1);
    *new = (struct place_process) {
        .root = found->pgd,
        .user_root = found->user_pgd,
        .id = btrail_identity_of(found),
        .round = p->round,
        .modules = g_array_new(FALSE, FALSE, sizeof(struct mapped_file)),
    };
    g_array_set_clear_func(new->modules, clear_module);
    if (old) {
        p->modules -= old->modules->len;
    }
    read_mappings(new, found, PLACES_MODULES - p->modules);
    p->modules += new->modules->len;
    if (old && same_process(old, found)) {
        carry_over(new, old);
    }
    p->changed = true;
    if (old) {
        g_hash_table_remove(p->processes, &old->root);
    }
    g_hash_table_insert(p->processes, &new->root, new);
}

/* Drops processes that a whole snapshot does not have. */
static void drop_gone(struct symbol_places *p)
{
    GHashTableIter iter;
    gpointer value;

    g_hash_table_iter_init(&iter, p->processes);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct place_process *process = value;

        if (process->round != p->round) {
            p->modules -= process->modules->len;
            p->changed = true;
            g_hash_table_iter_remove(&iter);
        }
    }
}

/*
 * Where the symbol is in them
 */

static const struct file_range *range_of(const struct mapped_file *m,
                                         uint64_t address)
{
    for (unsigned i = 0; i < m->n_ranges; i++) {
        if (address >= m->ranges[i].start && address < m->ranges[i].end) {
            return &m->ranges[i];
        }
    }
    return NULL;
}

/* A guest can have mapped a file any number of times. */
static void add_address(struct mapped_file *m, uint64_t address)
{
    if (!m->addresses) {
        m->addresses = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    }
    if (m->addresses->len == PLACES_OF_FILE) {
        m->capped = true;
    } else {
        g_array_append_val(m->addresses, address);
    }
}

static void add_offset(struct mapped_file *m, uint64_t offset)
{
    for (unsigned i = 0; i < m->n_ranges; i++) {
        const struct file_range *r = &m->ranges[i];

        if (offset >= r->offset && offset - r->offset < r->end - r->start) {
            add_address(m, r->start + (offset - r->offset));
        }
    }
}

/* Returns false if the host has no such file. */
static bool find_in_file(const struct symbol_places *p, struct mapped_file *m)
{
    g_autoptr(GArray) offsets = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    enum symbol_answer answer =
        p->files.find(p->files.opaque, m->path,
                      m->build_id_size ? m->build_id : NULL, m->build_id_size,
                      p->symbol, offsets);

    for (unsigned i = 0; answer == SYMBOL_FOUND && i < offsets->len; i++) {
        add_offset(m, g_array_index(offsets, uint64_t, i));
    }
    return answer == SYMBOL_FOUND || answer == SYMBOL_NONE;
}

static void find_in_module(struct symbol_places *p, struct page_walk *user,
                           struct mapped_file *m)
{
    uint64_t addresses[LINUX_SYMBOL_VERSIONS];
    unsigned n;

    if (m->is_file && p->files.find && !m->asked) {
        m->asked = true;
        user->budget -= MIN(user->budget, FILE_COST);
        if (find_in_file(p, m)) {
            m->known = true;
            return;
        }
    }
    if (!m->base) {
        m->known = true;
        return;
    }
    switch (linux_dynamic_symbol(user, m->base, p->symbol, addresses, &n)) {
    case LINUX_SYMBOL_ABSENT:
        return;
    case LINUX_SYMBOL_FOUND:
        for (unsigned i = 0; i < n; i++) {
            if (range_of(m, addresses[i])) {
                add_address(m, addresses[i]);
            }
        }
        break;
    default:
        break;
    }
    m->known = true;
}

/* Searches in those files of a process that are not known yet. */
static void find_in_process(struct symbol_places *p,
                            struct place_process *process,
                            struct page_walk *user)
{
    process->pending = false;
    for (unsigned i = 0; i < process->modules->len; i++) {
        struct mapped_file *m = &g_array_index(process->modules,
                                               struct mapped_file, i);

        if (!m->known) {
            find_in_module(p, user, m);
            p->changed |= m->addresses != NULL;
            process->pending |= !m->known;
        }
        if (!user->budget) {
            process->pending |= i + 1 < process->modules->len;
            break;
        }
    }
}

static int compare_place_roots(const void *a, const void *b)
{
    const struct place_process *x = *(struct place_process *const *)a;
    const struct place_process *y = *(struct place_process *const *)b;

    return x->root < y->root ? -1 : x->root > y->root;
}

/*
 * Searches in all processes.  If that exceeds the budget, the next snapshot
 * continues where this one has ended.
 */
static void find_all(struct symbol_places *p,
                     const struct guest_memory *memory, unsigned levels)
{
    g_autoptr(GPtrArray) pending = g_ptr_array_new();
    g_autofree struct page_walk *user = g_new(struct page_walk, 1);
    uint64_t budget = SNAPSHOT_BUDGET;
    GHashTableIter iter;
    gpointer value;
    unsigned i, first = 0;

    g_hash_table_iter_init(&iter, p->processes);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        if (((struct place_process *)value)->pending) {
            g_ptr_array_add(pending, value);
        }
    }
    if (pending->len) {
        g_ptr_array_sort(pending, compare_place_roots);
    }
    while (first < pending->len &&
           ((struct place_process *)pending->pdata[first])->root < p->from) {
        first++;
    }
    p->from = 0;
    for (i = 0; i < pending->len; i++) {
        struct place_process *process =
            pending->pdata[(first + i) % pending->len];

        if (!budget) {
            p->from = process->root;
            break;
        }
        page_walk_init(user, memory, process->root, levels, budget);
        find_in_process(p, process, user);
        budget = user->budget;
    }
}

static void add_place(GHashTable *set, uint64_t root, uint64_t address)
{
    struct symbol_place place = { btrail_cr3_root(root), address };

    if (root) {
        g_hash_table_add(set, g_memdup2(&place, sizeof(place)));
    }
}

/* Makes a new set and replaces the old one by it. */
static void publish(struct symbol_places *p)
{
    GHashTable *set = new_set(), *old;
    GHashTableIter iter;
    gpointer value;
    unsigned count = 0, i, k;
    bool capped = false;

    g_hash_table_iter_init(&iter, p->processes);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct place_process *process = value;

        for (i = 0; i < process->modules->len; i++) {
            const struct mapped_file *m = &g_array_index(process->modules,
                                                         struct mapped_file, i);

            for (k = 0; m->addresses && k < m->addresses->len; k++) {
                uint64_t address = g_array_index(m->addresses, uint64_t, k);

                if (count == PLACES_MAX) {
                    capped = true;
                    break;
                }
                add_place(set, process->root, address);
                add_place(set, process->user_root, address);
                count++;
            }
            capped |= m->capped;
        }
    }
    g_mutex_lock(&p->lock);
    old = p->set;
    p->set = set;
    g_mutex_unlock(&p->lock);
    g_hash_table_unref(old);
    __atomic_store_n(&p->count, count, __ATOMIC_RELAXED);
    __atomic_store_n(&p->capped, capped, __ATOMIC_RELAXED);
}

void symbol_places_snapshot(struct symbol_places *p,
                            const struct btrail_snapshot *snapshot,
                            const struct guest_memory *memory,
                            unsigned levels)
{
    p->round++;
    p->changed = false;
    for (uint32_t i = 0; i < snapshot->n; i++) {
        const struct btrail_process *found = &snapshot->processes[i];

        if (found->mm && !(found->flags & BTRAIL_PROCESS_KERNEL)) {
            learn_process(p, found);
        }
    }
    if (snapshot->flags & BTRAIL_SNAPSHOT_WHOLE) {
        drop_gone(p);
    }
    find_all(p, memory, levels);
    if (p->changed) {
        publish(p);
    }
}

bool symbol_places_has(struct symbol_places *p, uint64_t cr3,
                       uint64_t address)
{
    const struct symbol_place place = { btrail_cr3_root(cr3), address };
    g_autoptr(GMutexLocker) locker = g_mutex_locker_new(&p->lock);

    return g_hash_table_contains(p->set, &place);
}

unsigned symbol_places_count(const struct symbol_places *p)
{
    return __atomic_load_n(&p->count, __ATOMIC_RELAXED);
}

bool symbol_places_capped(const struct symbol_places *p)
{
    return __atomic_load_n(&p->capped, __ATOMIC_RELAXED);
}

void symbol_places_each(const struct symbol_places *p,
                        void (*fn)(void *opaque, uint64_t address),
                        void *opaque)
{
    GHashTableIter iter;
    gpointer key;

    /* Only this thread changes the set. */
    g_hash_table_iter_init(&iter, p->set);
    while (g_hash_table_iter_next(&iter, &key, NULL)) {
        fn(opaque, ((struct symbol_place *)key)->address);
    }
}
