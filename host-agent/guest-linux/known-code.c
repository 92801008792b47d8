/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Page tables and code that snapshots have found: see known-code.h
 */

#include "guest-linux/known-code.h"
#include "util/clock.h"
#include "util/hash.h"

#define SEEN_SLOTS  4096
/*
 * With @brief, a CR3 counts as that of the same process for only so long after
 * a snapshot.
 */
#define TRUST_NS    UINT64_C(2000000)

/* Addresses at which a snapshot has found code mapped */
struct code_range {
    uint64_t start;
    uint64_t end;
};

struct known_code {
    struct btrail_budget *kept;
    bool brief;
    GMutex lock;
    GHashTable *ranges;         /* under the lock: by root, GArray of struct
                                   code_range */
    uint64_t seen[SEEN_SLOTS];  /* roots; atomic each */
    uint64_t begun;             /* when the last snapshot did, 0 if there is no
                                   kernel; atomic */
};

struct known_code *known_code_new(struct btrail_budget *kept, bool brief)
{
    struct known_code *code = g_new0(struct known_code, 1);

    code->kept = kept;
    code->brief = brief;
    code->ranges = g_hash_table_new_full(btrail_int64_hash, g_int64_equal,
                                         g_free,
                                         (GDestroyNotify)g_array_unref);
    g_mutex_init(&code->lock);
    return code;
}

void known_code_free(struct known_code *code)
{
    g_hash_table_destroy(code->ranges);
    g_mutex_clear(&code->lock);
    g_free(code);
}

static uint64_t *seen_slot(struct known_code *code, uint64_t root)
{
    return &code->seen[(btrail_hash(root) >> 32) % SEEN_SLOTS];
}

bool known_code_is_new_cr3(struct known_code *code, uint64_t cr3)
{
    uint64_t root = btrail_cr3_root(cr3);
    uint64_t *slot = seen_slot(code, root);
    uint64_t begun = __atomic_load_n(&code->begun, __ATOMIC_RELAXED);

    if (__atomic_load_n(slot, __ATOMIC_RELAXED) == root &&
        !(code->brief && begun && clock_ns() - begun > TRUST_NS)) {
        return false;
    }
    __atomic_store_n(slot, root, __ATOMIC_RELAXED);
    return true;
}

bool known_code_is_new(struct known_code *code, uint64_t cr3,
                       uint64_t address)
{
    uint64_t root = btrail_cr3_root(cr3);
    const GArray *ranges;
    bool known = false;

    g_mutex_lock(&code->lock);
    ranges = g_hash_table_lookup(code->ranges, &root);
    for (guint i = 0; ranges && i < ranges->len && !known; i++) {
        const struct code_range *r = &g_array_index(ranges,
                                                    struct code_range, i);

        known = address >= r->start && address < r->end;
    }
    g_mutex_unlock(&code->lock);
    return !known || known_code_is_new_cr3(code, cr3);
}

void known_code_begin(struct known_code *code, uint64_t time)
{
    __atomic_store_n(&code->begun, time, __ATOMIC_RELAXED);
}

static uint64_t ranges_size(const GArray *ranges)
{
    /* An array can have room for twice as many. */
    return (uint64_t)ranges->len * sizeof(struct code_range) * 2;
}

/* Forgets where code is that runs with page tables. */
static void drop_ranges(struct known_code *code, const uint64_t *root)
{
    GArray *ranges = g_hash_table_lookup(code->ranges, root);

    if (ranges) {
        btrail_budget_drop(code->kept, ranges_size(ranges));
        g_hash_table_remove(code->ranges, root);
    }
}

void known_code_keep(struct known_code *code, const struct btrail_process *p)
{
    GArray *ranges = g_array_new(FALSE, FALSE, sizeof(struct code_range));
    uint64_t roots[2] = { p->pgd, p->user_pgd };

    for (uint32_t i = 0; i < p->n_mappings; i++) {
        const struct btrail_mapping *m = &p->mappings[i];
        struct code_range range = { m->start, m->end };

        if (m->flags & BTRAIL_MAPPING_EXEC) {
            g_array_append_val(ranges, range);
        }
    }
    g_mutex_lock(&code->lock);
    for (uint32_t i = 0; i < 2; i++) {
        if (!roots[i]) {
            continue;
        }
        drop_ranges(code, &roots[i]);
        if (btrail_budget_keep(code->kept, ranges_size(ranges))) {
            g_hash_table_insert(code->ranges,
                                g_memdup2(&roots[i], sizeof(roots[i])),
                                g_array_ref(ranges));
        }
    }
    g_mutex_unlock(&code->lock);
    g_array_unref(ranges);
}

void known_code_keep_only(struct known_code *code, GHashTable *roots)
{
    GHashTableIter iter;
    gpointer key, value;

    for (unsigned i = 0; i < SEEN_SLOTS; i++) {
        uint64_t root = __atomic_load_n(&code->seen[i], __ATOMIC_RELAXED);

        if (root && !g_hash_table_contains(roots, &root)) {
            __atomic_store_n(&code->seen[i], 0, __ATOMIC_RELAXED);
        }
    }
    g_mutex_lock(&code->lock);
    g_hash_table_iter_init(&iter, code->ranges);
    while (g_hash_table_iter_next(&iter, &key, &value)) {
        if (!g_hash_table_contains(roots, key)) {
            btrail_budget_drop(code->kept, ranges_size(value));
            g_hash_table_iter_remove(&iter);
        }
    }
    g_mutex_unlock(&code->lock);
}
